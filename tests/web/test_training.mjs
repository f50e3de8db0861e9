// The tab of the training: its controls make the plan they say, and its figures are the simulator's.
import { check, same, test, until } from "./harness.mjs";

async function openStory(t, number, mode) {
  await t.open();
  await t.at(`story-${number}`).click();
  await t.sent((p) => p.cluster?.mode === mode);
  return t.compare();
}

// Moves the playhead of the training; returns the time where it then is.
async function moveTo(t, share) {
  const scrub = t.at("training-scrub");
  const before = await scrub.getAttribute("data-value");
  await scrub.fill(String(Math.round(share * 1000)));
  return until(async () => {
    const now = await scrub.getAttribute("data-value");
    return now !== before && Number(now);
  }, "the playhead is moved");
}

const last = (list) => list?.at(-1);

test("training_workers_and_servers", async (t) => {
  await openStory(t, 4, "sync");
  const changes = [["workers", 3], ["workers", 8], ["ps", 1], ["ps", 4], ["workers", 1], ["workers", 40]];
  for (const [name, value] of changes) {
    await t.at(name).fill(String(value));
    await t.sent((p) => p.cluster?.[name] === value, `${name} is ${value}`);
    const { training } = await t.compare();
    same(training[name], value, `${name} of the training`);
  }
});

test("training_modes", async (t) => {
  await openStory(t, 4, "sync");
  const about = new Set();
  for (const mode of ["async", "backup", "bounded", "adaptive", "allreduce", "sync"]) {
    await t.at(`mode-${mode}`).check();
    await t.sent((p) => p.cluster?.mode === mode, `the mode is ${mode}`);
    const { training } = await t.compare();
    // The simulator calls all modes with a barrier sync.
    const isSync = training.mode === "sync" && ["backup", "adaptive"].includes(mode);
    if (!isSync) same(training.mode, mode, "mode of the training");
    about.add(await t.at("mode-about").textContent());
    for (const [of, slider, values] of [["backup", "backup", [2, 0, 1]], ["bounded", "delay", [0, 16, 3]]])
      for (const value of of === mode ? values : []) {
        await t.at(slider).fill(String(value));
        await t.sent((p) => p.cluster?.[slider] === value, `${slider} is ${value}`);
        await t.compare();
      }
  }
  same(about.size, 6, "modes with a text of their own");
});

test("training_kill_a_worker", async (t) => {
  await openStory(t, 4, "sync");
  const at_s = await moveTo(t, 0.4);
  await t.at("kill-worker-1").click();
  await t.sent((p) => p.cluster?.crashes?.length === 1, "a crash is in the plan");
  same(t.shown.plan.cluster.crashes, [{ task: "worker", index: 1, at_s }], "crashes");
  const { training } = await t.compare();
  same(training.losses.length, 1, "losses");
  same([training.losses[0].task, training.losses[0].index], ["worker", 1], "the task that was lost");
  check((await t.at("training-loss-0").innerText()).includes("worker 1"), "the page names the worker");
  // Removing the event restores the plan.
  await t.at("remove-event-1").click();
  await t.sent((p) => p.cluster && !p.cluster.crashes, "the crash is removed");
  same((await t.compare()).training.losses, [], "losses");
});

// In sync mode the others cannot go on, although a step may still end right after the kill: what the page says and
// draws is as long as the wait.
test("training_others_wait_for_a_killed_worker", async (t) => {
  await openStory(t, 4, "sync");
  await t.at("remove-event-0").click();
  await t.sent((p) => p.cluster && !p.cluster.slow, "no worker is slow");
  await moveTo(t, 0.5);
  await t.at("kill-worker-1").click();
  await t.sent((p) => p.cluster?.crashes?.length === 1, "worker 1 is killed");
  const { training } = await t.compare();
  const { stopped_s, at_s, back_s } = training.losses[0];
  check(stopped_s > 0.9 * (back_s - at_s), `${stopped_s} s without a step, but the worker is back after ${back_s - at_s} s`);
  const text = await t.at("training-findings").innerText();
  check(text.includes("made no progress for") && !text.includes("went on"), `the findings are '${text}'`);
  same(Number(await t.at("training-stopped").getAttribute("data-value")), stopped_s, "stopped by failures");
  const waits = await t.page.locator("[data-test=training-whole] .training-bar-wait title").allTextContents();
  check(waits.some((s) => s.startsWith("worker 0: waiting")), `the lanes of the whole training have ${waits}`);
  same(Number(await t.at("in-total").getAttribute("data-value")), training.total_s, "the large number");
});

test("training_dropped_gradients_are_drawn", async (t) => {
  const { training } = await openStory(t, 5, "backup");
  check(training.spans.some((s) => s.dropped && s.task === "worker:3"), "no recorded gradient of worker 3 is dropped");
  const drops = await t.page.locator("[data-test=training-first] .training-dropped title").allTextContents();
  check(drops.length > 0 && drops.every((s) => s.startsWith("worker 3")), `drawn as dropped: ${drops}`);
  check((await t.page.getByText("gradient dropped").count()) === 1, "the legend has no dropped gradient");
  same(await t.at("first-no-drop").count(), 0, "a note that none is dropped");
  same(await t.at("machines").innerText(), "4 gradients needed + 1 backup = 5 machines.", "machines");
  check((await t.at("backup-about").innerText()).includes("first 4 gradients of 5"), "no worker is the backup");
  same(await t.at("dropped-3").innerText(), `${training.each_worker[3].dropped} dropped`, "worker 3");
  same(await t.at("dropped-0").count(), 0, "gradients of worker 0 are dropped");
});

test("training_kill_a_server_with_and_without_a_checkpoint", async (t) => {
  await openStory(t, 4, "sync");
  const killed = await moveTo(t, 0.6);
  await t.at("kill-ps-0").click();
  await t.sent((p) => p.cluster?.crashes?.length === 1);
  same(t.shown.plan.cluster.crashes, [{ task: "ps", index: 0, at_s: killed }], "crashes");
  const without = (await t.compare()).training;
  same(without.losses[0].checkpoint_at_s, null, "checkpoint that was restored");
  same(await t.at("training-restored").getAttribute("data-value"), "null", "the page says that there was none");
  check(without.losses[0].lost_steps > 0, "no steps are lost without a checkpoint");

  // The total has changed, so the playhead is moved to half of the time before the crash.
  const saved = await moveTo(t, (0.5 * killed) / without.total_s);
  check(saved < killed, `the playhead is at ${saved}, after the crash at ${killed}`);
  await t.at("checkpoint-now").click();
  await t.sent((p) => p.cluster?.checkpoints?.length === 1, "a checkpoint is in the plan");
  same(t.shown.plan.cluster.checkpoints, [saved], "checkpoints");
  const withOne = (await t.compare()).training;
  check(withOne.losses[0].checkpoint_at_s !== null, "the checkpoint is restored");
  check(withOne.losses[0].lost_steps < without.losses[0].lost_steps, "the checkpoint saves no steps");
  same(await t.at("training-lost").getAttribute("data-value"), String(withOne.losses[0].lost_steps), "steps lost");
});

test("training_slow_and_fast_again", async (t) => {
  await openStory(t, 5, "backup");
  const { slow } = t.shown.plan.cluster;
  await t.at("slow-worker-0").click();
  await t.sent((p) => p.cluster?.slow?.length === slow.length + 1, "worker 0 is slow");
  const { factor, ...rest } = last(t.shown.plan.cluster.slow);
  same(rest, { worker: 0 }, "who is slow from the beginning");
  same(await t.at("slow-worker-0").innerText(), "Slowed", "the pressed button");
  check((await t.page.getByRole("status").allInnerTexts()).some((s) => s.includes("from the beginning")),
    "the page does not say from when on");
  check(factor > 1, `factor ${factor}`);
  const slower = (await t.compare()).training;
  await t.at("slow-worker-0").click();
  await t.sent((p) => p.cluster?.slow?.length === slow.length, "worker 0 is fast again");
  const faster = (await t.compare()).training;
  check(faster.total_s < slower.total_s, "a slow worker costs nothing");

  const at_s = await moveTo(t, 0.5);
  await t.at("slow-ps-1").click();
  await t.sent((p) => p.cluster?.slow?.length === slow.length + 1, "ps 1 is slow");
  same(last(t.shown.plan.cluster.slow), { task: "ps", index: 1, factor, at_s }, "who is slow from the middle");
  await t.compare();
});

test("training_slow_factor", async (t) => {
  await openStory(t, 4, "sync");
  await t.at("slow-worker-2").click();
  await t.sent((p) => p.cluster?.slow?.some((x) => x.worker === 2), "worker 2 is slow");
  same(last(t.shown.plan.cluster.slow).factor, 3, "usual factor");
  const usual = (await t.compare()).training;
  await t.at("slow-worker-2").click();
  await t.sent((p) => !p.cluster?.slow?.some((x) => x.worker === 2), "worker 2 is fast again");
  await t.at("slow-factor").fill("12.5x");
  await t.at("slow-factor").press("Enter");
  await t.at("slow-worker-2").click();
  await t.sent((p) => p.cluster?.slow?.some((x) => x.factor === 12.5), "worker 2 is very slow");
  check((await t.compare()).training.total_s > usual.total_s, "a larger factor costs more");
  check((await t.at("state-worker-2").innerText()).includes("12.5× slower"), "its box has the factor");
  for (const text of ["1", "0.5", "0", "-2", "1001", "much"]) {
    await t.at("slow-factor").fill(text);
    same(await t.at("slow-factor").getAttribute("aria-invalid"), "true", `factor ${text}`);
  }
  await t.at("slow-factor").press("Escape");
  same(await t.at("slow-factor").inputValue(), "12.5×", "factor after Escape");
});

test("training_cut_a_link", async (t) => {
  const before = (await openStory(t, 4, "sync")).training;
  const at_s = await moveTo(t, 0.3);
  await t.at("cut-worker-2").click();
  await t.sent((p) => p.cluster?.cuts?.length === 1, "a cut is in the plan");
  const [cut] = t.shown.plan.cluster.cuts;
  same([cut.worker, cut.at_s], [2, at_s], "worker and time of the cut");
  check(cut.for_s > 0, "the cut has no length");
  const after = (await t.compare()).training;
  check(after.total_s > before.total_s, "a cut costs nothing");
});

test("training_buttons_without_a_playhead_act_in_the_middle", async (t) => {
  const { training } = await openStory(t, 4, "sync");
  await t.at("checkpoint-now").click();
  await t.sent((p) => p.cluster?.checkpoints?.length === 1);
  const [at] = t.shown.plan.cluster.checkpoints;
  check(Math.abs(at / training.total_s - 0.5) < 0.02, `the checkpoint is at ${at} of ${training.total_s} s`);
  check((await t.page.getByRole("status").allInnerTexts()).some((s) => s.includes("The playhead was moved")),
    "the page does not say why the time is another one");
  await t.compare();
});

test("training_checkpoints_and_restart", async (t) => {
  await openStory(t, 6, "sync");
  await t.at("checkpoint-on").check();
  await t.sent((p) => p.cluster?.checkpoint_s > 0, "checkpoints are on");
  await t.compare();
  await t.at("checkpoint-s").fill("3");
  await t.at("checkpoint-s").press("Enter");
  await t.sent((p) => p.cluster?.checkpoint_s === 3, "a checkpoint every 3 s");
  const { training } = await t.compare();
  check(training.checkpoints > 1, "checkpoints are written");
  await t.at("restart-s").fill("8");
  await t.sent((p) => p.cluster?.restart_s === 8, "a task restarts after 8 s");
  await t.compare();
  await t.at("checkpoint-on").uncheck();
  await t.sent((p) => p.cluster && !p.cluster.checkpoint_s, "checkpoints are off");
  same((await t.compare()).training.checkpoints, 0, "checkpoints");
});

test("training_further_settings", async (t) => {
  await openStory(t, 4, "sync");
  await t.page.locator(".training-more summary").click();
  const settings = { "tail-ms": 20, "tail-share": 0.25, "save-s": 1.5, "restore-s": 2.5, seed: 7 };
  for (const [name, value] of Object.entries(settings)) {
    const key = name.replace("-", "_");
    await t.at(name).fill(String(value));
    await t.sent((p) => p.cluster?.[key] === value, `${key} is ${value}`);
    await t.compare();
  }
  await t.at("steps").fill("30");
  await t.at("steps").press("Enter");
  await t.sent((p) => p.cluster?.steps === 30, "30 steps");
  await t.compare();
});

test("training_charts_are_sweeps", async (t) => {
  await openStory(t, 4, "sync");
  const points = (name) => t.page.$$eval(`[data-test=${name}-point]`, (all) =>
    all.map((e) => [Number(e.dataset.x), Number(e.dataset.value)]));
  const isComplete = (name) => until(async () =>
    (await points(name)).length > 0 && (await t.at(name).getAttribute("aria-busy")) !== "true", `${name} has points`);
  const sweep = await t.command(["--sweep", "workers=1..64"]);
  for (const [chart, member] of [["chart-examples", "examples_per_s"], ["chart-steps", "steps_per_s"]]) {
    await isComplete(chart);
    same(await points(chart), sweep.points.map((p) => [p.value, p[member]]), chart);
  }
  await t.at("mode-backup").check();
  await t.sent((p) => p.cluster?.mode === "backup");
  const backups = await t.command(["--sweep", "backup=0..8"]);
  await isComplete("chart-backup");
  same(await points("chart-backup"), backups.points.map((p) => [p.value, p.examples_per_s]), "chart-backup");
});

test("training_figures_are_kept_for_comparison", async (t) => {
  const before = (await openStory(t, 4, "sync")).training;
  await t.at("keep").click();
  await t.at("mode-async").check();
  await t.sent((p) => p.cluster?.mode === "async");
  const after = (await t.compare()).training;
  same(await t.at("kept-training-total").getAttribute("data-value"), String(before.total_s), "kept total");
  check(before.total_s !== after.total_s, "both modes take the same time");
  for (const row of await t.page.locator(".training-figures tbody tr").all()) {
    const [now, kept] = [await row.locator("b").innerText(), await row.locator(".training-kept").innerText()];
    const diff = row.locator(".training-diff");
    if (now === kept) same(await diff.count(), 0, `differences of ${now}`);
    else if (await diff.count()) check(!(await diff.innerText()).includes("<1"), `${now} and ${kept} differ by <1 %`);
  }
  await t.at("forget-kept").click();
  await until(async () => !(await t.at("kept-training-total").count()), "the kept figures are gone");
});

test("training_plays", async (t) => {
  await openStory(t, 4, "sync");
  const at = async () => Number(await t.at("training-scrub").getAttribute("data-value"));
  await t.at("training-play").click();
  await until(async () => (await at()) > 0, "the playhead moves");
  await t.at("training-play").click();
  await until(async () => (await t.at("training-play").getAttribute("aria-label")) !== "Pause", "it is paused");
});

test("training_tab_adds_a_cluster", async (t) => {
  await t.open();
  await t.sent((p) => !p.cluster);
  await t.at("tab-training").click();
  await t.sent((p) => Boolean(p.cluster), "the plan gets a cluster");
  await t.compare();
});

// Steps of such a cluster have more spans than a reply: the page draws some tasks, and says so.
test("training_first_steps_of_a_large_cluster", async (t) => {
  await openStory(t, 4, "sync");
  same(await t.at("first-left-out").count(), 0, "a note in a small cluster");
  await t.at("workers-value").fill("500");
  await t.at("workers-value").press("Enter");
  await t.sent((p) => p.cluster?.workers === 500, "500 workers");
  const { training } = await t.compare();
  same(training.spans_of.steps, 3, "steps with spans");
  const { workers } = training.spans_of;
  const note = await t.at("first-left-out").innerText();
  check(note.includes(`${workers} of ${training.each_worker.length} workers`), `the note says '${note}'`);
  check((await t.at("training-first").count()) === 1, "the first steps are drawn");
  const worker = training.spans.filter((s) => s.task === "worker:0" && s.doing === "push");
  same(worker.map((s) => s.step), [0, 1, 2], "steps of worker 0");

  // All others wait for the one that is killed, but it is among those that are drawn.
  await t.at("pick-worker-100").click();
  await t.at("kill-worker-100").click();
  await t.sent((p) => p.cluster?.crashes?.length === 1, "worker 100 is killed");
  await t.compare();
  const names = await t.page.locator("[data-test=training-whole]").textContent();
  check(names.includes("worker 100"), `the lanes of the whole training are ${names}`);
  check((await t.at("whole-left-out").innerText()).includes("24 of"), "the note says how many are drawn");
});

test("training_many_workers_are_drawn_small", async (t) => {
  await openStory(t, 4, "sync");
  await t.at("workers").fill("64");
  await t.sent((p) => p.cluster?.workers === 64);
  await t.compare();
  await t.at("pick-worker-63").click();
  await t.at("kill-worker-63").click();
  await t.sent((p) => p.cluster?.crashes?.[0]?.index === 63, "worker 63 is killed");
  await t.compare();
});

// All-reduce has no parameter servers, so the plan cannot name one; another story must not get the event.
test("training_events_of_servers_return_after_all_reduce", async (t) => {
  await openStory(t, 6, "sync");
  await t.at("mode-allreduce").check();
  await t.sent((p) => p.cluster?.mode === "allreduce" && !p.cluster.crashes, "the crash of the server is left out");
  await t.at("mode-sync").check();
  await t.sent((p) => p.cluster?.mode === "sync" && p.cluster.crashes?.[0]?.task === "ps", "the crash is back");
  await t.compare();
  await t.at("mode-allreduce").check();
  await t.sent((p) => p.cluster?.mode === "allreduce", "all-reduce again");
  await openStory(t, 4, "sync");
  await t.at("workers").fill("6");
  const plan = await t.sent((p) => p.cluster?.workers === 6, "6 workers");
  same(plan.cluster.crashes, undefined, "crashes of another story");
});

test("training_backup_keeps_the_number_of_machines", async (t) => {
  await openStory(t, 4, "sync");
  await t.at("mode-backup").check();
  const plan = await t.sent((p) => p.cluster?.mode === "backup", "the mode is backup");
  same([plan.cluster.workers, plan.cluster.backup], [4, 1], "workers and backup workers");
  await t.at("mode-sync").check();
  await t.sent((p) => p.cluster?.mode === "sync" && p.cluster.workers === 5, "five workers again");
  await t.compare();
});

// ---- what the sentences say ----

const findingsOf = (t) => t.at("training-findings").innerText();
const valueOf = async (t, name) => Number(await t.at(name).getAttribute("data-value"));

test("training_says_that_a_backup_is_used_up", async (t) => {
  await openStory(t, 5, "backup");
  const before = await findingsOf(t);
  check(before.startsWith("✓") && before.includes("No step waits for worker 3"), `the findings are '${before}'`);
  await t.at("kill-worker-1").click();
  await t.sent((p) => p.cluster?.crashes?.length === 1, "worker 1 is killed");
  const { training } = await t.compare();
  const held = training.each_worker[3].last;
  check(held > 0.1 * training.steps, `worker 3 ends ${held} steps`);
  const text = await findingsOf(t);
  check(!text.includes("✓") && !text.includes("No step waits"), `it praises a backup that is used up: '${text}'`);
  check(text.includes(`${held} of ${training.steps} steps wait for worker 3`), `the findings are '${text}'`);
  check(text.includes("While worker 1 cannot work") && text.includes("the backup is used up"), `the findings are '${text}'`);
  check(text.includes("went on, but more slowly"), `the findings are '${text}'`);
});

test("training_says_who_each_mode_waits_for", async (t) => {
  await openStory(t, 4, "sync");
  const texts = {
    sync: "Every step waits for worker 3", allreduce: "Every step waits for worker 3",
    adaptive: "Only 1 of 60 steps waits for worker 3", backup: "No step waits for worker 3",
    async: "nobody waits for it", bounded: "at most 4 steps ahead of worker 3",
  };
  for (const [mode, want] of Object.entries(texts).reverse()) {
    await t.at(`mode-${mode}`).check();
    await t.sent((p) => p.cluster?.mode === mode, `the mode is ${mode}`);
    await t.compare();
    const text = await findingsOf(t);
    check(text.includes(want), `${mode}: '${text}'`);
  }
});

// With an adaptive number of gradients, the others may wait for a worker that is cut off: the curve says whether they do.
test("training_says_whether_the_others_wait_for_a_cut_worker", async (t) => {
  await openStory(t, 4, "sync");
  await t.at("remove-event-0").click();
  await t.sent((p) => p.cluster && !p.cluster.slow, "no worker is slow");
  await t.at("cut-worker-2").click();
  await t.sent((p) => p.cluster?.cuts?.length === 1, "worker 2 is cut off");
  for (const mode of ["sync", "backup", "adaptive", "async", "bounded"]) {
    await t.at(`mode-${mode}`).check();
    await t.sent((p) => p.cluster?.mode === mode, `the mode is ${mode}`);
    const { training } = await t.compare();
    const [{ at_s, for_s }] = t.shown.plan.cluster.cuts;
    const during = training.progress.filter((p) => p.at_s > at_s && p.at_s < at_s + for_s).map((p) => p.steps);
    const text = await findingsOf(t);
    if (mode === "bounded") check(text.includes("4 steps ahead of it"), `bounded: '${text}'`);
    else if (new Set(during).size > 3) check(text.includes("go on without it"), `${mode}: '${text}'`);
    else check(text.includes("all the others wait for it"), `${mode}: '${text}'`);
  }
});

test("training_price_of_a_backup", async (t) => {
  const { training } = await openStory(t, 5, "backup");
  const { steps, dropped } = training.each_worker[3];
  same([dropped, training.dropped], [steps, steps], "dropped gradients of worker 3, and of all");
  const text = await findingsOf(t);
  check(text.includes("worker 3's whole machine (1 of 5) contributes nothing"), `the findings are '${text}'`);
  check(text.includes(`finished only ${dropped} gradients`), `the findings are '${text}'`);
  same(await t.at("dropped-3").innerText(), `${training.dropped} dropped`, "the card of worker 3");
  same(await valueOf(t, "training-dropped"), training.dropped, "dropped gradients");
  // Without a straggler as many are dropped as the cards say together.
  await t.at("remove-event-0").click();
  await t.sent((p) => p.cluster && !p.cluster.slow, "no worker is slow");
  const alike = (await t.compare()).training;
  same(alike.each_worker.reduce((sum, w) => sum + w.dropped, 0), alike.dropped, "dropped gradients of all workers");
});

test("training_compares_equal_amounts_of_work", async (t) => {
  await openStory(t, 4, "sync");
  same(await valueOf(t, "training-examples-per-step"), 160, "images per step");
  await t.at("keep").click();
  await t.at("story-5").click();
  await t.sent((p) => p.cluster?.mode === "backup");
  await t.compare();
  same(await valueOf(t, "training-examples-per-step"), 128, "images per step with a backup");
  same(await valueOf(t, "kept-training-examples-per-step"), 160, "kept images per step");
  const row = (name) => t.page.locator(".training-figures tr", { has: t.page.locator(`[data-test=${name}]`) });
  same(await row("training-total").locator(".training-diff").count(), 0, "differences of total times of unequal work");
  check((await row("training-total").innerText()).includes("60 steps of 128 images"), "the total time does not say of what");
  check((await t.at("kept-other-work").innerText()).includes("7680 now, 9600 kept"), "the page does not say why");
  const wait = await row("training-wait").locator(".training-diff").innerText();
  check(/^−\d+ points$/.test(wait), `the difference of two shares is '${wait}'`);
  check(await row("training-wait").locator("small").isVisible(), "the explanations are gone");
  check((await t.at("kept-title").innerText()).includes("inception"), "what is kept does not name its network");
  await t.at("story-6").click();
  await t.sent((p) => p.graph?.blocks === 2);
  await t.compare();
  check((await t.at("kept-other-network").innerText()).includes("another network"), "networks differ, and no warning");
  same(await t.page.locator(".training-diff").count(), 0, "differences to a training of another network");
});

test("training_useful_workers_are_those_without_the_straggler", async (t) => {
  await openStory(t, 4, "sync");
  const chart = t.at("chart-examples");
  await until(async () => (await chart.getAttribute("aria-busy")) === "false", "the chart is complete");
  const text = await t.at("chart-examples-conclusion").innerText();
  check(text.includes("less than 2") && text.includes("worker 3, which is 5× slower, is among them"), `it says '${text}'`);
  check((await t.page.locator("[data-test=chart-examples-point]").first().textContent()).startsWith("1 worker:"), "1 workers");
  await t.at("mode-backup").check();
  await t.sent((p) => p.cluster?.mode === "backup");
  await until(async () => (await chart.getAttribute("aria-busy")) === "false", "the chart is complete");
  check((await chart.innerText()).includes("needed workers"), "with backups the axis counts only the needed workers");
});

// While a sweep is under way, no sentence mixes its old points with the new figures.
test("training_charts_say_nothing_while_they_are_calculated", async (t) => {
  await openStory(t, 4, "sync");
  const chart = t.at("chart-examples");
  await until(async () => (await chart.getAttribute("aria-busy")) === "false", "the chart is complete");
  let answer;
  const held = new Promise((done) => (answer = done));
  await t.page.route("**/api/sweep*", async (route) => {
    await held;
    await route.continue();
  });
  await t.at("ps").fill("3");
  await t.sent((p) => p.cluster?.ps === 3, "three parameter servers");
  await until(async () => (await chart.getAttribute("aria-busy")) === "true", "a sweep is under way");
  same(await t.at("chart-examples-conclusion").innerText(), "", "the sentence below the chart");
  answer();
  await until(async () => (await t.at("chart-examples-conclusion").innerText()).includes("Now, with 5 workers"), "the sentence is back");
});

test("training_says_that_transfers_take_the_time", async (t) => {
  await t.open();
  await t.at("model").selectOption("transformer");
  await t.sent((p) => p.graph.model === "transformer");
  await t.at("tab-training").click();
  await t.sent((p) => Boolean(p.cluster), "the plan gets a cluster");
  const { training } = await t.compare();
  const shares = training.each_worker.map((w) => {
    const transfer = w.call_s + w.fetch_s + w.push_s;
    return transfer / (transfer + w.busy_s + w.wait_s + w.down_s);
  });
  const mean = shares.reduce((a, b) => a + b, 0) / shares.length;
  check(mean > 0.5, `only ${mean} of the time are transfers: another plan is needed here`);
  check(Math.abs((await valueOf(t, "training-transfer")) / mean - 1) < 1e-9, "the figure of the transfers");
  const text = await findingsOf(t);
  check(text.includes("The links are the bottleneck"), `the findings are '${text}'`);
  const row = t.page.locator(".training-figures tr", { has: t.page.locator("[data-test=training-ps-busiest]") });
  check((await row.innerText()).includes("send and receive"), "the page does not say what 100 % would be");
});

// A worker is down only while it has crashed itself; for other tasks it waits.
test("training_others_wait_while_a_task_is_down", async (t) => {
  const { training } = await openStory(t, 6, "sync");
  check(training.each_worker.every((w) => w.down_s === 0 && w.wait_s > 1), "workers are down without a crash");
  check(!(await t.page.locator(".training-workers .training-shares").first().getAttribute("title")).includes("down"), "a worker is down");
  await openStory(t, 4, "sync");
  await t.at("kill-worker-1").click();
  await t.sent((p) => p.cluster?.crashes?.length === 1, "worker 1 is killed");
  const killed = (await t.compare()).training;
  const { at_s, back_s } = killed.losses[0];
  killed.each_worker.forEach((w, i) => {
    const want = i === 1 ? back_s - at_s : 0;
    check(Math.abs(w.down_s - want) < 1e-6, `worker ${i} is down for ${w.down_s} s instead of ${want} s`);
  });
  const row = t.page.locator(".training-figures tr", { has: t.page.locator("[data-test=training-wait]") });
  check((await row.innerText()).includes("while another task is down"), "the page does not say what is counted");
});

test("training_parts_of_an_outage_add_up", async (t) => {
  const without = (await openStory(t, 6, "sync")).training.losses[0];
  const partsAdd = async (loss) => {
    const value = async (name) => ((await t.at(`loss-${name}`).count()) ? valueOf(t, `loss-${name}`) : 0);
    const back = (await value("restart")) + (await value("retry")) + (await value("restore")) + (await value("session"));
    check(Math.abs(back - (loss.back_s - loss.at_s)) < 1e-6, `the parts take ${back} s, but it is back after ${loss.back_s - loss.at_s} s`);
    same(Number((await value("back")).toFixed(6)), Number((loss.back_s - loss.at_s).toFixed(6)), "back");
    check(Math.abs(back + (await value("step")) - loss.stopped_s) < 1e-6, "the parts are not the time without progress");
  };
  await partsAdd(without);
  same(await t.at("loss-restore").count(), 0, "time for restoring nothing");
  await t.at("story-6-2").click();
  await t.sent((p) => p.cluster?.checkpoint_s > 0, "the crash with checkpoints");
  const { training } = await t.compare();
  await partsAdd(training.losses[0]);
  check(Math.abs((await valueOf(t, "loss-restore")) - 0.3) < 1e-6, "restoring takes 0.3 s in this story");
  const text = await findingsOf(t);
  const begun = "begun at 8\u00a0s";
  same(training.losses[0].checkpoint_taken_s, 8, "begin of the checkpoint");
  for (const part of [begun, "checkpoints take no extra time"]) check(text.includes(part), `the findings are '${text}'`);
  check((await t.at("training-loss-0").innerText()).includes(begun), "the list of failures names the checkpoint otherwise");
  check((await t.at("training-progress").textContent()).includes(begun), "the curve names the checkpoint otherwise");
});

test("training_longest_step_of_a_short_training", async (t) => {
  const { training } = await openStory(t, 4, "sync");
  same(await t.at("training-step-p99").count(), 0, "p99 of fewer than 100 steps");
  same(await valueOf(t, "training-step-max"), training.step_s.max, "longest step");
  await openStory(t, 6, "sync");
  const row = t.page.locator(".training-figures tr", { has: t.page.locator("[data-test=training-step-p99]") });
  check((await row.innerText()).includes("at most this long"), "the page does not say what p99 is");
});

test("training_steps_per_second_name_whose_steps", async (t) => {
  await openStory(t, 4, "sync");
  const row = t.page.locator(".training-figures tr", { has: t.page.locator("[data-test=training-steps-per-s]") });
  check(/^Cluster steps per second[^]*without the first 5 steps/.test(await row.innerText()), `it says '${await row.innerText()}'`);
  await t.at("mode-async").check();
  await t.sent((p) => p.cluster?.mode === "async");
  await t.compare();
  check((await row.innerText()).startsWith("Worker steps per second"), `it says '${await row.innerText()}'`);
});

test("training_bounded_delay_shows_the_waiting", async (t) => {
  await openStory(t, 4, "sync");
  await t.at("mode-bounded").check();
  await t.sent((p) => p.cluster?.mode === "bounded");
  await t.compare();
  const waits = await t.page.locator("[data-test=training-first] .training-bar-wait title").allTextContents();
  check(waits.some((s) => s.startsWith("worker 0: waiting")), `nobody waits in the first steps: ${waits}`);
  same(await t.at("first-no-wait").count(), 0, "a note that nobody waits yet");
  // With a long delay the waiting begins after the first steps, and the page says so.
  await t.at("delay").fill("32");
  await t.sent((p) => p.cluster?.delay === 32);
  await t.compare();
  if (!(await t.page.locator("[data-test=training-first] .training-bar-wait").count()))
    check((await t.at("first-no-wait").innerText()).includes("32 steps ahead"), "no note that they wait later");
});

test("training_whole_training_does_not_call_waiting_work", async (t) => {
  await openStory(t, 4, "sync");
  const legend = await t.page.locator(".training-whole .training-legend").innerText();
  check(legend.includes("working or waiting") && !legend.includes("at work"), `the legend is '${legend}'`);
  same(await t.page.locator("[data-test=training-ideal]").count(), 0, "a time without failures, without failures");
  await t.at("kill-worker-1").click();
  await t.sent((p) => p.cluster?.crashes?.length === 1, "worker 1 is killed");
  await t.compare();
  const row = t.page.locator(".training-figures tr", { has: t.page.locator("[data-test=training-ideal]") });
  check((await row.innerText()).includes("slow tasks stay slow"), "the time without failures still has the straggler");
  check((await t.page.getByRole("status").allInnerTexts()).some((s) => s.startsWith("Worker 1 is killed")), "a small letter begins the note");
});

// The picture that the sentences are about is on the first screen.
test("training_pictures_are_above_the_fold", async (t) => {
  await openStory(t, 6, "sync");
  const bottom = async (name) => {
    const { y, height } = await t.at(name).boundingBox();
    return y + height;
  };
  check((await bottom("training-progress")) < 720, "the progress of story 6 is below the fold");
  await t.at("story-5").click();
  await t.sent((p) => p.cluster?.mode === "backup");
  await t.compare();
  check((await bottom("chart-backup")) < 720, "the chart of story 5 is below the fold");
  await t.open({ width: 390, height: 844, board: t.board });
  await t.at("story-4").click();
  await t.sent((p) => p.cluster?.mode === "sync");
  const first = await t.at("training-first").boundingBox();
  const controls = await t.at("mode").boundingBox();
  check(first.y + first.height < 844 && first.y < controls.y, "on a phone the picture is behind the controls");
});
