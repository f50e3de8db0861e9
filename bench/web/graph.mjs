// A GraphDef of about 10,000 nodes for `make bench-web`: node graph.mjs nested|flat FILE.
//
// 5 stages of 25 blocks; a block has 5 branches of 2 dense layers with a residual connection, which are added at its
// end. All shapes are static, so that the simulator can estimate the costs of the nodes. With `flat` the names of the
// nodes have no scopes.
import { writeFileSync } from "node:fs";

const STAGES = 5, BLOCKS = 25, BRANCHES = 5, LAYERS = 2, WIDTH = 64, BATCH = 32;
const DT_FLOAT = 1;

// ---- protobuf: only what GraphDef needs ----

function varint(n) {
  const bytes = [];
  for (; n > 127; n = Math.floor(n / 128)) bytes.push((n % 128) | 128);
  return Buffer.from([...bytes, n]);
}

const number = (field, n) => Buffer.concat([varint(field * 8), varint(n)]);
const bytes = (field, b) => Buffer.concat([varint(field * 8 + 2), varint(b.length), b]);
const text = (field, s) => bytes(field, Buffer.from(s));

const attr = (name, value) => bytes(5, Buffer.concat([text(1, name), bytes(2, value)])); // NodeDef.attr
const type = (name, t) => attr(name, number(6, t)); // AttrValue.type
const int = (name, n) => attr(name, number(3, n)); // AttrValue.i
const shape = (name, dims) => // AttrValue.shape
  attr(name, bytes(7, Buffer.concat(dims.map((d) => bytes(2, number(1, d))))));

// ---- the graph ----

const [kind, file] = process.argv.slice(2);
if (!file || !["nested", "flat"].includes(kind)) throw new Error("usage: node graph.mjs nested|flat FILE");
const nodes = [];
const names = new Map(); // with scopes -> as written

function node(name, op, inputs, ...attrs) {
  names.set(name, kind === "flat" ? `n${names.size}_${op}` : name);
  nodes.push(bytes(1, Buffer.concat([
    text(1, names.get(name)), text(2, op), ...inputs.map((i) => text(3, names.get(i))), ...attrs,
  ])));
  return name;
}

function variable(name, dims) {
  node(name, "VarHandleOp", [], type("dtype", DT_FLOAT), shape("shape", dims));
  return node(`${name}/Read`, "ReadVariableOp", [name], type("dtype", DT_FLOAT));
}

function layer(scope, x) {
  const kernel = variable(`${scope}/kernel`, [WIDTH, WIDTH]);
  const product = node(`${scope}/MatMul`, "MatMul", [x, kernel], type("T", DT_FLOAT));
  const bias = variable(`${scope}/bias`, [WIDTH]);
  const sum = node(`${scope}/BiasAdd`, "BiasAdd", [product, bias], type("T", DT_FLOAT));
  const active = node(`${scope}/Relu`, "Relu", [sum], type("T", DT_FLOAT));
  return node(`${scope}/add`, "AddV2", [active, x], type("T", DT_FLOAT));
}

let x = node("input", "Placeholder", [], type("dtype", DT_FLOAT), shape("shape", [BATCH, WIDTH]));
for (let s = 1; s <= STAGES; s++) {
  for (let b = 1; b <= BLOCKS; b++) {
    const ends = [];
    for (let r = 1; r <= BRANCHES; r++) {
      let y = x;
      for (let l = 1; l <= LAYERS; l++) y = layer(`stage${s}/block${b}/branch${r}/dense${l}`, y);
      ends.push(y);
    }
    x = node(`stage${s}/block${b}/sum`, "AddN", ends, int("N", BRANCHES), type("T", DT_FLOAT));
  }
}
writeFileSync(file, Buffer.concat([...nodes, bytes(4, number(1, 1087))])); // GraphDef.versions.producer
console.log(`${file}: ${nodes.length} nodes`);
