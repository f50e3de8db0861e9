// The step: after every change of the plan, the page shows what `millrace sim --json` prints for the same plan.
import { check, same, test, until } from "./harness.mjs";

const device = (plan, name) => plan.devices?.find((d) => d.name === name) ?? {};

// The positions of a slider that are tried: its ends and one between. The one where it is comes last, so that each is a
// change.
async function positions(slider) {
  const [low, high, now] = await slider.evaluate((e) => [Number(e.min), Number(e.max), Number(e.value)]);
  const between = Math.round((2 * low + high) / 3);
  return [between, high, low, now].filter((p, i, all) => p !== (i ? all[i - 1] : now));
}

// Moves a slider to each position; value(plan) is the number it changes.
async function trySlider(t, name, value) {
  const slider = t.at(name);
  for (const position of await positions(slider)) {
    const before = value(t.simulations.at(-1).plan);
    await slider.fill(String(position));
    await t.sent((p) => value(p) !== before, `the slider ${name} at ${position} changes the plan`);
    await t.compare();
  }
}

test("step_time_placement_and_timeline_of_every_network", async (t) => {
  await t.open();
  await t.sent();
  const models = await t.at("model").locator("optgroup[label^=Built]").locator("option").allTextContents();
  same(models, ["inception", "lenet", "lstm", "mlp", "neuron", "transformer"], "built-in networks");
  for (const model of [...models.slice(1), models[0]]) {
    await t.at("model").selectOption(model);
    await t.sent((p) => p.graph.model === model, `the network ${model} is simulated`);
    await t.compare();
  }
});

test("step_parameters_of_a_network", async (t) => {
  await t.open();
  await t.at("model").selectOption("mlp");
  await t.sent((p) => p.graph.model === "mlp");
  for (const [name, value] of [["batch", 64], ["inputs", 100], ["hidden", 512], ["layers", 3], ["classes", 4]]) {
    await t.at(`param-${name}`).fill(String(value));
    await t.sent((p) => p.graph[name] === value, `${name} is ${value}`);
    await t.compare();
  }
  // A number that is out of range is marked and is not sent.
  const n = t.simulations.length;
  await t.at("param-layers").fill("65");
  await t.becomes("param-layers", "aria-invalid", "true", "65 layers are marked");
  same(t.simulations.length, n, "number of simulations");
});

test("step_sliders_of_devices", async (t) => {
  await t.open();
  await t.at("story-2").click();
  await t.sent((p) => p.devices?.length === 2);
  for (const name of ["gpu0", "gpu1"]) {
    await trySlider(t, `speed-${name}`, (p) => device(p, name).speedup);
    await trySlider(t, `overhead-${name}`, (p) => device(p, name).op_us);
    await trySlider(t, `memory-${name}`, (p) => device(p, name).memory_bytes);
  }
});

test("step_sliders_of_links", async (t) => {
  await t.open();
  await t.at("story-2").click();
  await t.sent((p) => p.devices?.length === 2);
  await trySlider(t, "link-latency", (p) => p.link?.latency_us);
  await trySlider(t, "link-bandwidth", (p) => p.link?.bytes_per_s);
});

test("step_fields_take_exact_values", async (t) => {
  await t.open();
  await t.at("story-2").click();
  await t.sent((p) => p.devices?.length === 2);
  const field = t.at("speed-gpu1-value");
  await field.fill("0.375");
  await field.press("Enter");
  await t.sent((p) => device(p, "gpu1").speedup === 0.375, "a speed of 0.375");
  await t.compare();
  const n = t.simulations.length;
  await field.fill("fast");
  await until(async () => (await field.getAttribute("aria-invalid")) === "true", "'fast' is marked");
  await field.press("Escape");
  await until(async () => (await field.inputValue()).startsWith("0.375"), "the field shows the old value again");
  same(t.simulations.length, n, "number of simulations");
});

test("step_devices_are_added_and_removed", async (t) => {
  await t.open();
  await t.at("story-1").click();
  await t.sent((p) => p.devices?.length === 1);
  await t.at("add-gpu").click();
  await t.sent((p) => p.devices.length === 2 && p.devices[1].type === "GPU", "a GPU is added");
  await t.compare();
  await t.at("add-cpu").click();
  const plan = await t.sent((p) => p.devices.length === 3 && p.devices[2].type === "CPU", "a CPU is added");
  await t.compare();
  same(plan.devices.map((d) => d.name), ["gpu0", "gpu1", "cpu0"], "names of the devices");
  for (const d of plan.devices) check(await t.at(`device-${d.name}`).isVisible(), `${d.name} has a card`);
  await t.at("remove-gpu0").click();
  await t.sent((p) => p.devices.length === 2, "gpu0 is removed");
  await t.compare();
  await t.at("remove-gpu1").click();
  const rest = await t.sent((p) => p.devices.length === 1, "gpu1 is removed");
  same(rest.devices[0].name, "cpu0", "the device that is left");
  await t.compare();
  const last = t.at("remove-cpu0");
  check(!(await last.count()) || (await last.isDisabled()), "the last device can be removed");
});

test("step_newest_of_many_changes_is_shown", async (t) => {
  await t.open();
  await t.at("story-2").click();
  await t.sent((p) => p.devices?.length === 2);
  await t.at("speed-gpu1").evaluate((e) => {
    for (let i = Number(e.min); i <= Number(e.max); i++) {
      e.value = String(i);
      e.dispatchEvent(new Event("input", { bubbles: true }));
    }
  });
  const high = await t.at("speed-gpu1").evaluate((e) => Number(e.max));
  await t.sent((p) => device(p, "gpu1").speedup > 1, "the fastest speed is shown in the end");
  await until(async () => Number(await t.at("speed-gpu1").inputValue()) === high, "the slider is at its end");
  await t.sent();
  await t.compare();
});

// Whether all of an element can be seen in the element that scrolls it.
const inView = (t, name, around) => t.at(name).evaluate((e, selector) => {
  const [r, box] = [e.getBoundingClientRect(), e.closest(selector).getBoundingClientRect()];
  return r.top >= box.top && r.bottom <= box.bottom;
}, around);

test("step_two_devices_and_the_table_of_a_pin_are_in_view", async (t) => {
  await t.open();
  for (const story of [2, 3]) {
    await t.at(`story-${story}`).click();
    await t.sent((p) => p.devices?.length === 2 && (story === 2) === (p.devices[1].speedup === undefined));
    await t.at("why-gpu1").waitFor();
    for (const name of ["gpu0", "gpu1"])
      check(await inView(t, `speed-${name}`, ".devices-list"), `the speed of ${name} is not in view in story ${story}`);
  }
  await t.at("pin-gpu1").click();
  await t.sent((p) => p.pins?.length === 1);
  await t.at("pin-cost").and(t.page.locator("[data-without]")).waitFor();
  for (const name of ["unpin", "why-gpu0", "why-gpu1"])
    check(await inView(t, name, ".why-body"), `${name} is not in view`);
  const alone = await t.at("alone").textContent();
  check(alone.includes("except for pinned nodes"), "it says that a device is alone in spite of the pin");
});

test("step_tab_reaches_the_pins_of_a_node_soon", async (t) => {
  await t.open();
  await t.at("story-2").click();
  await t.sent((p) => p.devices?.length === 2);
  await t.at("why-gpu1").waitFor();
  await t.at("node-block1/ConcatV2").focus();
  await t.page.keyboard.press("Enter");
  await until(async () => (await t.at("why-name").textContent()) === "block1/ConcatV2", "the node is chosen");
  await t.at("pin-gpu1").waitFor();
  let name;
  for (let i = 0; i < 8 && !name?.startsWith("pin-"); i++) {
    await t.page.keyboard.press("Tab");
    name = await t.page.evaluate(() => document.activeElement.dataset.test);
  }
  check(name?.startsWith("pin-"), `8 times Tab reach ${name}`);
});

test("step_one_device_is_no_choice", async (t) => {
  await t.open();
  await t.sent((p) => p.devices?.length === 1);
  await t.page.locator(".graph-box[data-test^=node-]", { hasText: "ConcatV2" }).first().click();
  await until(async () => /the only device/.test(await t.at("why-text").textContent()), "it is on the only device");
  // The placer does not know the nodes at the edges of the step, and knows folded constants by another name.
  await t.page.locator(".graph-box[data-test^=node-_arg_x]").first().click();
  await until(async () => /is fed into the step/.test(await t.at("why-text").textContent()), "it is a feed");
  check(/^x,/.test(await t.page.locator(".why-body p").first().textContent()), "the feed is shown with its label");
  await t.page.locator(".graph-box[data-test^=node-Range]").first().click();
  await until(async () => /the only device/.test(await t.at("why-text").textContent()), "the constant has a reason");
});

test("step_phone_has_parameters_behind_a_fold", async (t) => {
  await t.open({ width: 390, height: 844, isMobile: true, hasTouch: true });
  await t.sent();
  check(!(await t.at("param-batch").isVisible()), "the parameters are visible at once");
  await t.at("params").tap();
  await t.at("param-batch").fill("16");
  await t.sent((p) => p.graph.batch === 16, "a batch of 16");
  await t.compare();
});
