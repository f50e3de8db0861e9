// The graph, the timeline's player, and why a node is where it is.
import { by, check, same, test, until } from "./harness.mjs";

const boxes = (t) => t.page.$$eval(".graph-box", (all) => all.map((e) => e.dataset.test));

// Expands scopes until none is left.
async function expandAll(t) {
  for (;;) {
    const closed = t.page.locator(".graph-box[aria-expanded=false]").first();
    if (!(await closed.count())) return;
    const name = await closed.getAttribute("data-test");
    await closed.dispatchEvent("click");
    await t.page.locator(`${by(name)}[aria-expanded=true]`).waitFor();
  }
}

for (const model of ["neuron", "lenet", "mlp", "inception"])
  test(`graph_has_every_node_of_${model}`, async (t) => {
    await t.open();
    await t.at("story-2").click();
    await t.sent((p) => p.devices?.length === 2);
    await t.at("model").selectOption(model);
    await t.sent((p) => p.graph.model === model && p.devices.length === 2);
    await expandAll(t);
    const nodes = async () => (await boxes(t)).filter((b) => b.startsWith("node-")).map((b) => b.slice(5)).sort();
    const before = await t.compare();
    same(await nodes(), before.nodes.map((n) => n.name).sort(), "nodes of the graph");
    // A slow device moves nodes. Others may run then, because equal nodes are merged only on one device.
    await t.at("speed-gpu1").fill("60");
    await t.sent((p) => p.devices[1].speedup < 1);
    await expandAll(t);
    const after = await t.compare();
    same(await nodes(), after.nodes.map((n) => n.name).sort(), "nodes of the graph with a slow device");
  });

test("graph_scope_expands_and_collapses", async (t) => {
  await t.open();
  await t.at("model").selectOption("transformer");
  await t.sent((p) => p.graph.model === "transformer");
  const before = await boxes(t);
  const scope = t.page.locator(".graph-box[aria-expanded=false]").first();
  const name = await scope.getAttribute("data-test");
  await scope.click();
  await t.page.locator(`${by(name)}[aria-expanded=true]`).waitFor();
  const after = await boxes(t);
  check(after.length > before.length, "the scope shows what is in it");
  await t.compare();
  await t.page.locator(by(name)).click();
  await t.page.locator(`${by(name)}[aria-expanded=false]`).waitFor();
  same((await boxes(t)).sort(), before.sort(), "boxes after the scope is collapsed");
});

// Where each box is, by its key.
const places = (t) => t.page.$$eval(".graph-box", (all) => all.map((e) => [e.dataset.key,
  (e.getAttribute("transform") ?? e.parentElement.getAttribute("transform")).match(/[\d.]+/g).map(Number)]));
const transformOf = (t) => t.page.locator(".graph-svg > g").first().getAttribute("transform");

for (const model of ["inception", "transformer"])
  test(`graph_slider_keeps_boxes_of_${model}_in_place`, async (t) => {
    await t.open();
    await t.at("story-2").click();
    await t.sent((p) => p.devices?.length === 2);
    if (model !== "inception") await t.at("model").selectOption(model);
    await t.sent((p) => p.graph.model === model && p.devices.length === 2);
    const view = await transformOf(t);
    const before = new Map(await places(t));
    for (const position of ["90", "75", "60"]) {
      await t.at("speed-gpu1").fill(position);
      const last = t.shown.plan.devices[1].speedup ?? 1;
      await t.sent((p) => (p.devices[1].speedup ?? 1) < last);
      let stay = 0;
      for (const [key, [x, y]] of await places(t)) {
        if (!before.has(key)) continue;
        const [x0, y0] = before.get(key);
        // Labels contain numbers, so a box may become a little wider.
        check(Math.abs(x - x0) <= 6 && Math.abs(y - y0) <= 6, `${key} moved from ${x0},${y0} to ${x},${y}`);
        stay++;
      }
      check(stay * 4 > before.size * 3, `only ${stay} of ${before.size} boxes are still there`);
      same(await transformOf(t), view, "position of the graph");
    }
    await t.compare();
  });

test("graph_pin_keeps_the_position", async (t) => {
  await t.open();
  await t.at("story-2").click();
  await t.sent((p) => p.devices?.length === 2);
  await t.at("graph-zoom-in").click();
  const view = await transformOf(t);
  await t.at("pin-gpu1").click();
  await t.sent((p) => p.pins?.length === 1);
  same(await transformOf(t), view, "position of the graph");
});

// If it can be seen as a whole there; see graph_opened_scope_is_seen_as_a_whole.
test("graph_opened_scope_stays_where_it_was_clicked", async (t) => {
  await t.open();
  await t.at("story-2").click();
  await t.sent((p) => p.devices?.length === 2);
  await t.at("graph-zoom-out").click();
  await t.at("graph-zoom-out").click();
  const top = async () => {
    const { x, y, width } = await t.at("scope-out").locator(".graph-shape").boundingBox();
    return { x: x + width / 2, y };
  };
  const before = await top();
  for (const open of [true, false]) {
    await t.at("scope-out").click();
    await t.page.locator(`${by("scope-out")}[aria-expanded=${open}]`).waitFor();
    const after = await top();
    check(Math.abs(after.x - before.x) < 3 && Math.abs(after.y - before.y) < 3,
      `moved from ${before.x},${before.y} to ${after.x},${after.y}`);
  }
});

// What was shown before a story does not decide where its boxes are.
test("graph_of_a_story_has_one_layout", async (t) => {
  const layoutOf = async () => JSON.stringify([await places(t), await transformOf(t)]);
  const open = async (number, devices) => {
    await t.at(`story-${number}`).click();
    await t.storyIsOpen(number);
    await t.sent((p) => p.devices?.length === devices && !p.cluster);
  };
  await t.open();
  await t.sent();
  await open(1, 1);
  const first = await layoutOf();
  await open(3, 2);
  await t.at("speed-gpu1").fill("90");
  await t.sent((p) => p.devices[1]?.speedup > 0.1);
  await open(2, 2);
  await t.at("story-6").click();
  await t.sent((p) => p.cluster?.steps === 400);
  await open(1, 1);
  await until(async () => (await layoutOf()) === first, "the boxes are where they were at first");
});

test("graph_opened_scope_is_seen_as_a_whole", async (t) => {
  await t.open();
  await t.at("story-2").click();
  await t.sent((p) => p.devices?.length === 2);
  const scopes = await t.page.$$eval(".graph-box[aria-expanded=false]", (all) => all.map((e) => e.dataset.test));
  check(scopes.length > 1, "story 2 has nothing to open");
  const svg = await t.page.locator(".graph-svg").boundingBox();
  for (const name of scopes) {
    await t.at(name).dispatchEvent("click");
    await t.page.locator(`${by(name)}[aria-expanded=true]`).waitFor();
    const box = await t.at(name).locator(".graph-shape").first().boundingBox();
    check(box.x >= svg.x - 1 && box.y >= svg.y - 1 && box.x + box.width <= svg.x + svg.width + 1 &&
      box.y + box.height <= svg.y + svg.height + 1, `${name} is cut: ${JSON.stringify(box)} in ${JSON.stringify(svg)}`);
  }
});

test("graph_search_finds_ops_before_constants", async (t) => {
  await t.open();
  await t.sent();
  await t.at("graph-search").fill("conv2d");
  await t.at("graph-match").first().waitFor();
  const ops = await t.page.locator("[data-test=graph-match] small").allInnerTexts();
  same(ops[0], "Conv2D", "op of the first node that is found");
});

test("graph_feeds_are_called_inputs", async (t) => {
  await t.open();
  await t.sent();
  const feed = (await t.compare()).nodes.find((n) => n.op === "_Arg");
  await t.at("graph-search").fill(feed.label);
  await t.at("graph-match").first().waitFor();
  check((await t.at("graph-match").first().innerText()).includes("input of the step"), "what _Arg is is not said");
});

test("graph_a_pin_says_why_there_is_no_estimate", async (t) => {
  await t.open();
  await t.at("story-2").click();
  await t.sent((p) => p.devices?.length === 2);
  await t.at("why-text").waitFor();
  await t.at("pin-gpu1").click();
  await t.sent((p) => p.pins?.length === 1);
  check((await t.at("why-pinned").innerText()).includes("has no choice"), "the other rows are empty, and nobody says why");
  check((await t.at("node-count").innerText()).includes("constants are copied"), "why there are more nodes is not said");
});

test("graph_red_is_only_between_devices", async (t) => {
  await t.open(); // story 1 has one device
  await t.sent();
  await t.page.locator(".graph-node").nth(1).click();
  await t.page.locator(".graph-hot").first().waitFor({ state: "attached" });
  const [hot, red] = await t.page.evaluate(() => {
    const probe = document.createElement("i");
    probe.style.color = "var(--transfer)";
    document.body.append(probe);
    return [getComputedStyle(document.querySelector(".graph-hot")).stroke, getComputedStyle(probe).color];
  });
  check(hot !== red, `the edges of a selected box are ${hot}`);
});

test("graph_feeds_have_their_own_names", async (t) => {
  await t.open();
  await t.sent();
  const feed = (await t.compare()).nodes.find((n) => n.label && !n.name.includes("/"));
  await t.at("graph-search").fill(feed.label);
  await t.at("graph-match").first().waitFor();
  const box = t.at(`node-${feed.name}`);
  same(await box.locator(".graph-name").textContent(), feed.label, "name in the box");
  check((await box.locator("title").textContent()).includes(feed.name), "the title has the name of the node too");
});

test("graph_finger_scrolls_the_page", async (t) => {
  await t.open({ width: 390, height: 844, hasTouch: true, isMobile: true });
  await t.sent();
  const svg = t.page.locator(".graph-svg");
  const middle = async () => {
    const { x, y, width, height } = await svg.boundingBox();
    return { x: x + width / 2, y: y + height / 2 };
  };
  await svg.evaluate((e) => e.scrollIntoView({ block: "center" }));
  const client = await t.page.context().newCDPSession(t.page);
  // Moves fingers in steps; each is a function of the step.
  const touch = async (...fingers) => {
    for (let i = 0; i <= 10; i++) {
      const touchPoints = fingers.map((f) => f(i));
      await client.send("Input.dispatchTouchEvent", { type: i ? "touchMove" : "touchStart", touchPoints });
    }
    await client.send("Input.dispatchTouchEvent", { type: "touchEnd", touchPoints: [] });
  };
  const start = await middle();
  const before = await transformOf(t);
  await touch((i) => ({ x: start.x, y: start.y - 15 * i }));
  await until(async () => (await middle()).y < start.y - 50, "the page scrolls");
  same(await transformOf(t), before, "position of the graph after scrolling");
  const { x, y } = await middle();
  await touch((i) => ({ x: x - 30 - 5 * i, y, id: 1 }), (i) => ({ x: x + 30 + 5 * i, y, id: 2 }));
  await until(async () => (await transformOf(t)) !== before, "two fingers zoom the graph");
});

test("graph_search_shows_a_node", async (t) => {
  await t.open();
  await t.at("model").selectOption("lenet");
  await t.sent((p) => p.graph.model === "lenet");
  await t.at("graph-search").fill("conv1/conv2d");
  await t.at("graph-match").first().waitFor();
  await t.at("graph-search").press("Enter");
  await until(async () => (await boxes(t)).some((b) => /^node-conv1\/Conv2D/i.test(b)), "the node is shown");
  await t.at("why-text").waitFor();
});

test("graph_zoom_and_fit", async (t) => {
  await t.open();
  await t.sent();
  const transform = () => t.page.locator(".graph-svg > g").first().getAttribute("transform");
  const fitted = await transform();
  await t.at("graph-zoom-in").click();
  await until(async () => (await transform()) !== fitted, "the graph is larger");
  await t.at("graph-zoom-out").click();
  await t.at("graph-fit").click();
  await until(async () => (await transform()) === fitted, "the whole graph is shown");
});

test("graph_keyboard_moves_and_opens", async (t) => {
  await t.open();
  await t.at("story-2").click();
  await t.sent((p) => p.devices?.length === 2);
  const focused = () => t.page.evaluate(() => document.activeElement?.dataset?.test ?? "");
  await t.page.locator(".graph-box[tabindex='0']").focus();
  const first = await focused();
  await t.page.keyboard.press("ArrowDown");
  await until(async () => (await focused()) !== first, "an arrow moves to the next box");
  const scope = t.page.locator(".graph-box[aria-expanded=false]").first();
  const name = await scope.getAttribute("data-test");
  await scope.focus();
  await t.page.keyboard.press("Enter");
  await t.page.locator(`${by(name)}[aria-expanded=true]`).waitFor();
  same(await focused(), name, "the focus stays on the scope");
  await t.page.keyboard.press("Space");
  await t.page.locator(`${by(name)}[aria-expanded=false]`).waitFor();
});

// ---- why here ----

// The rows of the answer are those of `millrace sim --json --explain`.
async function compareReasons(t, node) {
  const { reasons } = await t.command(["--explain"], [node]);
  const reason = reasons.find((r) => r.node === node);
  const rows = t.page.locator("tr[data-test^=why-]");
  await until(async () => (await rows.count()) === reason.choices.length, "a row for each device");
  for (const c of reason.choices) {
    const row = t.at(`why-${c.device}`);
    await until(async () => (await row.getAttribute("data-end")) === (c.end_s === null ? null : String(c.end_s)),
      async () => `end of ${node} on ${c.device}: ${await row.getAttribute("data-end")} instead of ${c.end_s}`);
    const step = await row.getAttribute("data-step");
    same(step, c.step_s === null ? null : String(c.step_s), `step with ${node} on ${c.device}`);
  }
  return reason;
}

test("graph_why_pin_and_unpin", async (t) => {
  await t.open();
  await t.at("story-2").click();
  const free = await t.sent((p) => p.devices?.length === 2);
  const node = "block1/c_3x3_2/Conv2D";
  await until(async () => (await t.at("why").textContent()).includes(node), "the story has selected a node");
  const before = await t.compare();
  const reason = await compareReasons(t, node);
  const other = reason.choices.find((c) => c.device !== reason.device);
  await t.at(`pin-${other.device}`).click();
  await t.sent((p) => p.pins?.length === 1, "the node is pinned");
  same(t.shown.plan.pins, [{ node, device: other.device }], "pins");
  const after = await t.compare();
  same(after.nodes.find((n) => n.name === node).device, other.device, "device of the pinned node");
  const cost = t.at("pin-cost");
  await t.becomes("pin-cost", "data-without", String(before.step_s), "the step without the pin");
  same(await cost.getAttribute("data-with"), String(after.step_s), "the step with the pin");
  await t.at("unpin").click();
  await t.sent((p) => !p.pins?.length, "the pin is removed");
  same((await t.compare()).step_s, before.step_s, "step without the pin");
  same(t.shown.plan.devices, free.devices, "devices");
});

test("graph_why_of_a_clicked_node", async (t) => {
  await t.open();
  await t.at("story-2").click();
  await t.sent((p) => p.devices?.length === 2);
  await t.at("model").selectOption("neuron");
  await t.sent((p) => p.graph.model === "neuron");
  for (const node of ["learning_rate", "Mean"]) {
    await t.at(`node-${node}`).click();
    await until(async () => (await t.at("why").textContent()).includes(node), `${node} is selected`);
    await compareReasons(t, node);
  }
  await t.at("why-close").click();
  await until(async () => !(await t.at("why-text").count()), "nothing is selected");
});

test("graph_scope_is_pinned_whole", async (t) => {
  await t.open();
  await t.at("story-2").click();
  await t.sent((p) => p.devices?.length === 2);
  await t.at("model").selectOption("lenet");
  await t.sent((p) => p.graph.model === "lenet");
  const scope = t.page.locator(".graph-box[aria-expanded=false]").first();
  const key = await scope.getAttribute("data-key");
  await scope.click();
  await t.at("pin-gpu1").click();
  await t.sent((p) => p.pins?.length === 1);
  same(t.shown.plan.pins, [{ node: key, device: "gpu1" }], "pins");
  const result = await t.compare();
  for (const n of result.nodes.filter((n) => n.name.startsWith(key))) same(n.device, "gpu1", `device of ${n.name}`);
});

// ---- the player ----

const scrubbed = async (t) => Number(await t.at("scrub").inputValue());

// The names of what runs at a time, as the page says it and as the command says it.
async function compareNow(t, result) {
  const at = await scrubbed(t);
  const text = await t.at("now").textContent();
  for (const d of result.devices) {
    const running = result.nodes.filter((n) => n.device === d.name && n.start_s <= at && at < n.end_s);
    const sayings = running.length ? running.map((n) => `${d.name}: ${n.label ?? n.name}`) : [`${d.name} idle`];
    check(sayings.some((s) => text.includes(s)), `at ${at} s: '${sayings[0]}' is not in '${text}'`);
  }
}

test("graph_player_steps_and_scrubs", async (t) => {
  await t.open();
  await t.at("story-2").click();
  await t.sent((p) => p.devices?.length === 2);
  const result = await t.compare();
  const events = [...new Set([0, result.step_s, ...result.nodes.flatMap((n) => [n.start_s, n.end_s]),
    ...result.transfers.flatMap((x) => [x.start_s, x.arrival_s])])].sort((a, b) => a - b);
  same(await scrubbed(t), 0, "time at the beginning");
  for (let i = 1; i <= 12; i++) {
    await t.at("step-forward").click();
    await until(async () => (await scrubbed(t)) === events[i], `step ${i} is at ${events[i]}`);
    await compareNow(t, result);
  }
  for (let i = 11; i >= 6; i--) {
    await t.at("step-back").click();
    await until(async () => (await scrubbed(t)) === events[i], `a step back is at ${events[i]}`);
    await compareNow(t, result);
  }
  for (const share of [0.9, 0.5, 0.1]) {
    const at = Number((result.step_s * share).toPrecision(6));
    await t.at("scrub").fill(String(at));
    await until(async () => (await scrubbed(t)) === at, "the playhead is moved");
    await compareNow(t, result);
    check((await t.page.locator(".graph-running").count()) > 0, `no box of the graph runs at ${share} of the step`);
  }
});

test("graph_player_plays_and_pauses", async (t) => {
  await t.open({ reducedMotion: "no-preference" });
  await t.at("story-2").click();
  await t.sent((p) => p.devices?.length === 2);
  const result = await t.compare();
  await t.at("play-speed").selectOption("4");
  await t.at("play").click();
  await until(async () => (await scrubbed(t)) > 0, "the playhead moves");
  same(await t.at("play").getAttribute("aria-label"), "Pause", "name of the button while it plays");
  await t.at("play").click();
  await t.becomes("play", "aria-label", "Play", "it is paused");
  const at = await scrubbed(t);
  check(at > 0 && at < result.step_s, `paused at ${at}`);
  await compareNow(t, result);
  await t.at("play").click();
  await until(async () => (await scrubbed(t)) === result.step_s, "it plays to the end");
  await t.becomes("play", "aria-label", "Play", "it stops at the end");
  // Space plays again, from the beginning.
  await t.page.locator("#main").focus();
  await t.page.keyboard.press("Space");
  await until(async () => (await scrubbed(t)) < result.step_s, "it begins again");
  await t.page.keyboard.press("Space");
  await t.becomes("play", "aria-label", "Play", "Space pauses");
});

test("graph_player_plays_as_soon_as_it_can_be_clicked", async (t) => {
  await t.open({ reducedMotion: "no-preference" });
  await t.at("play").click(); // waits until the button is enabled
  await until(async () => (await scrubbed(t)) > 0, "the playhead moves");
});

test("graph_timeline_table_is_large_and_closes", async (t) => {
  await t.open();
  await t.sent();
  await t.at("timeline-as-table").click();
  const box = await t.at("timeline-table").boundingBox();
  check(box.height > 400 && box.width > 800, `the table is ${box.width} x ${box.height}`);
  await t.page.keyboard.press("Escape");
  await t.at("timeline-table").waitFor({ state: "detached" });
  same(await t.page.evaluate(() => document.activeElement.dataset.test), "timeline-as-table", "focus after Escape");
  await t.at("timeline-as-table").click();
  await t.at("timeline-table-close").click();
  await t.at("timeline-table").waitFor({ state: "detached" });
});

test("graph_player_fits_a_phone", async (t) => {
  await t.open({ width: 390, height: 844 });
  await t.sent();
  const slider = await t.at("scrub").boundingBox();
  const clock = await t.page.locator(".timeline-clock").boundingBox();
  check(slider.y >= clock.y + clock.height || slider.x + slider.width <= clock.x, "the slider lies over the time");
});

test("graph_timeline_zooms", async (t) => {
  await t.open();
  await t.at("story-2").click();
  await t.sent((p) => p.devices?.length === 2);
  const widest = () => t.page.evaluate(() => Math.max(...window.drawnTimeline.rects.map((r) => r.w)));
  const whole = await widest();
  await t.at("timeline-zoom-in").click();
  await until(async () => (await widest()) > 1.5 * whole, "spans are wider");
  await t.at("timeline-zoom-out").click();
  await t.at("timeline-fit").click();
  await until(async () => Math.abs((await widest()) - whole) < 1e-6, "the whole step is shown");
  await t.compare();
});
