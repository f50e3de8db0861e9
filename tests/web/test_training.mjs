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
  same(await t.at("slow-worker-0").innerText(), "Slow on", "the pressed button");
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
