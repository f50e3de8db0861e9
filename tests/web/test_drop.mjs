// Files that are dropped onto the page, chosen with the button or given on the command line.
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Board, GOLDEN, ROOT, TENSORFLOW_GOLDEN, check, same, test, until } from "./harness.mjs";

// Drops a file or folder of the disk, as the browser itself would report it.
async function drop(t, path) {
  const cdp = await t.page.context().newCDPSession(t.page);
  const data = { items: [], files: [path], dragOperationsMask: 1 };
  await cdp.send("Input.dispatchDragEvent", { type: "dragEnter", x: 300, y: 300, data });
  await cdp.send("Input.dispatchDragEvent", { type: "dragOver", x: 300, y: 300, data });
  await t.at("drop-overlay").waitFor();
  await cdp.send("Input.dispatchDragEvent", { type: "drop", x: 300, y: 300, data });
}

// Opens a page and drops the path; returns what the command says about the graph that is then shown.
async function dropGraph(t, path, name, isGraph = (p) => Boolean(p.graph?.file)) {
  t.paths.set(name, path);
  await t.open();
  await t.sent();
  await drop(t, path);
  await t.sent(isGraph, `${path} is simulated`);
  return t.compare();
}

const names = (result) => result.nodes.map((n) => n.name);

test("drop_saved_model_of_tensorflow", async (t) => {
  const result = await dropGraph(t, join(TENSORFLOW_GOLDEN, "saved_model/half_plus_two/00000123"), "saved_model.pb");
  check(names(result).includes("y"), `no node y in ${names(result)}`);
  await t.at("node-y").waitFor();
  const { device } = result.nodes.find((n) => n.name === "y");
  same(await t.at("node-y").getAttribute("data-device"), device, "device of y");
}, { needsTensorflow: true });

for (const name of ["half_plus_two_v2/00000123", "SimpleWhileLoop", "VarsAndArithmeticObjectGraph"])
  test(`drop_saved_model_of_tensorflow_${name.split("/")[0]}`, async (t) => {
    await dropGraph(t, join(TENSORFLOW_GOLDEN, "saved_model", name), "saved_model.pb");
  }, { needsTensorflow: true });

test("drop_saved_model", async (t) => {
  await dropGraph(t, join(GOLDEN, "saved_model/half_plus_two/00000001"), "saved_model.pb");
});

test("drop_saved_model_file", async (t) => {
  const folder = join(GOLDEN, "saved_model/half_plus_two/00000001");
  t.paths.set("saved_model.pb", folder);
  await t.open();
  await t.sent();
  await drop(t, join(folder, "saved_model.pb"));
  await t.sent((p) => Boolean(p.graph?.file));
  await t.compare();
});

test("drop_graph_def", async (t) => {
  const result = await dropGraph(t, join(GOLDEN, "graphs/batch_norm_net.pb"), "batch_norm_net.pb");
  check(result.nodes.length > 2, "the graph has too few nodes");
});

test("drop_graph_def_of_tensorflow", async (t) => {
  await dropGraph(t, join(TENSORFLOW_GOLDEN, "graphs/lstm_net.pb"), "lstm_net.pb");
}, { needsTensorflow: true });

test("drop_plan", async (t) => {
  const path = join(ROOT, "examples/sim/inception-4.json");
  await dropGraph(t, path, "inception-4.json", (p) => p.devices?.length === 4);
  same(t.shown.plan.title, JSON.parse(readFileSync(path)).title, "title of the plan");
});

test("drop_plan_with_a_cluster", async (t) => {
  const path = join(ROOT, "examples/sim/backup.json");
  await dropGraph(t, path, "backup.json", (p) => p.cluster?.mode === "backup");
  same(await t.at("tab-training").getAttribute("aria-selected"), "true", "the tab of the training is open");
});

test("drop_file_chosen_with_the_button", async (t) => {
  const path = join(GOLDEN, "graphs/batch_matmul_net.pb");
  t.paths.set("batch_matmul_net.pb", path);
  await t.open();
  await t.sent();
  await t.at("drop").setInputFiles(path);
  await t.sent((p) => Boolean(p.graph?.file));
  await t.compare();
  // The file stays in the list of networks.
  await t.at("model").selectOption("neuron");
  await t.sent((p) => p.graph.model === "neuron");
  await t.at("model").selectOption({ label: "batch_matmul_net.pb" });
  await t.sent((p) => Boolean(p.graph?.file));
  await t.compare();
});

// What is no graph or plan gives a message, and the page still shows what it showed before.
const BAD = {
  empty: ["empty.pb", ""],
  noise: ["noise.pb", Buffer.from(Array.from({ length: 1000 }, (_, i) => (i * 7919) % 256))],
  text: ["notes.txt", "These are notes, not a graph."],
  json: ["broken.json", "{ \"graph\": "],
  list: ["list.json", "[1, 2]"],
  unknown_key: ["unknown.json", "{ \"grahp\": { \"model\": \"mlp\" } }"],
  path: ["path.json", "{ \"graph\": { \"file\": \"/etc/passwd\" } }"],
  unknown_op: ["unknown_op.pbtxt", "node { name: \"a\" op: \"NoSuchOp\" }"],
};
for (const [kind, [name, content]] of Object.entries(BAD))
  test(`drop_bad_file_shows_an_error_${kind}`, async (t) => {
    t.expectErrors(/status of 4\d\d/);
    const folder = join(t.dir, kind);
    mkdirSync(folder);
    writeFileSync(join(folder, name), content);
    await t.open();
    await t.sent();
    const step = await t.stepTime();
    await drop(t, join(folder, name));
    await t.at("error").waitFor();
    check((await t.at("error").innerText()).length > 20, "the message is too short to explain anything");
    same(await t.stepTime(), step, "the step time");
    // The next change works.
    await t.at("story-2").click();
    await t.sent((p) => p.devices?.length === 2);
    await t.compare();
  });

test("drop_folder_without_a_model_shows_an_error", async (t) => {
  await t.open();
  await t.sent();
  await drop(t, join(GOLDEN, "graphs"));
  await t.at("error").waitFor();
  check((await t.at("error").innerText()).includes("saved_model.pb"), "the message does not name saved_model.pb");
  await t.at("error-close").click();
  await until(async () => !(await t.at("error").count()), "the message is closed");
});

test("drop_files_of_the_command_line", async (t) => {
  const graph = join(t.dir, "given.pb");
  copyFileSync(join(GOLDEN, "graphs/batch_norm_net.pb"), graph);
  const board = await Board.start(t.build, [graph, join(ROOT, "examples/sim/inception-2.json")]);
  t.paths.set("given.pb", graph);
  await t.open({ board });
  await t.sent((p) => Boolean(p.graph?.file), "the first file is shown");
  await t.compare();
  await t.at("model").selectOption({ label: "inception-2.json" });
  await t.sent((p) => p.graph?.model === "inception" && p.devices?.length === 2, "the plan is shown");
  await t.compare();
  await t.page.close();
  await board.stop();
});
