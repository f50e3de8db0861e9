// A side of bench-models: onnxruntime on one thread. `node ort.mjs MODULES MODEL.onnx INPUT.json` answers each line N on
// standard input with the CPU milliseconds of N runs. INPUT.json has the type, shape and values of the input `x`;
// the values of the output are written to INPUT.json.out, so that the caller can compare them.
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { resolve } from "node:path";

const [modules, model, inputFile] = process.argv.slice(2);
const ort = createRequire(resolve(modules, "package.json"))("onnxruntime-node");
const { type, shape, values } = JSON.parse(readFileSync(inputFile, "utf8"));
const data = type === "int64" ? BigInt64Array.from(values, BigInt) : Float32Array.from(values);
const x = new ort.Tensor(type, data, shape);
const options = { intraOpNumThreads: 1, interOpNumThreads: 1, executionMode: "sequential", logSeverityLevel: 3 };
const session = await ort.InferenceSession.create(model, options);
const { y } = await session.run({ x });
writeFileSync(`${inputFile}.out`, JSON.stringify(Array.from(y.data)));
console.log("ready");
for await (const line of createInterface({ input: process.stdin })) {
  const before = process.cpuUsage();
  for (let i = 0; i < Number(line); i++) await session.run({ x });
  const used = process.cpuUsage(before);
  console.log((used.user + used.system) / 1000);
}
