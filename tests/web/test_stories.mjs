// The stories, and the state in the address of the page.
import { join } from "node:path";
import { SCREENS, check, same, test, until } from "./harness.mjs";

const STORIES = 6;
const TRAINING = [4, 5, 6];

test("stories_open_in_order", async (t) => {
  await t.open();
  await t.sent();
  same(t.simulations.at(-1).plan.devices.length, 1, "devices of the first page");
  const seen = new Set();
  for (let i = 1; i <= STORIES; i++) {
    await t.at(`story-${i}`).click();
    await t.storyIsOpen(i);
    const plan = await t.sent((p) => !seen.has(JSON.stringify(p)) , `story ${i} has a plan of its own`);
    seen.add(JSON.stringify(plan));
    same(Boolean(plan.cluster), TRAINING.includes(i), `story ${i} trains on a cluster`);
    const tab = TRAINING.includes(i) ? "tab-training" : "tab-step";
    await t.becomes(tab, "aria-selected", "true", `the tab of story ${i}`);
    await t.compare();
  }
});

test("stories_chosen_before_the_server_answers_stay", async (t) => {
  await t.open();
  await t.sent();
  let answer;
  const held = new Promise((done) => (answer = done));
  await t.page.route("**/api/start", async (route) => {
    await held;
    await route.continue();
  });
  await t.page.goto(t.board.url);
  await t.at("story-2").click();
  await t.sent((p) => p.devices?.length === 2, "story 2");
  answer();
  await until(async () => (await t.page.locator("[data-test=model] option").count()) > 1, "the networks are listed");
  await t.storyIsOpen(2);
  await t.sent((p) => p.devices?.length === 2, "story 2 stays");
  await t.compare();
});

test("stories_have_variants", async (t) => {
  await t.open();
  await t.at("story-6").click();
  await t.sent((p) => p.cluster && !p.cluster.checkpoint_s, "the crash without checkpoints");
  const without = (await t.compare()).training;
  await t.at("story-6-2").click();
  await t.sent((p) => p.cluster?.checkpoint_s > 0, "the crash with checkpoints");
  const withThem = (await t.compare()).training;
  check(withThem.losses[0].lost_steps < without.losses[0].lost_steps, "checkpoints do not save steps");
  check(withThem.total_s < without.total_s, "checkpoints do not save time");
});

test("stories_backup_worker_is_faster_than_a_straggler", async (t) => {
  await t.open();
  await t.at("story-4").click();
  await t.sent((p) => p.cluster?.mode === "sync");
  const sync = (await t.compare()).training;
  await t.at("story-5").click();
  await t.sent((p) => p.cluster?.mode === "backup");
  const backup = (await t.compare()).training;
  check(backup.steps_per_s > 1.5 * sync.steps_per_s, `${backup.steps_per_s} and ${sync.steps_per_s} steps/s`);
});

test("stories_say_that_they_were_changed", async (t) => {
  await t.open();
  await t.at("story-3").click();
  await t.sent((p) => p.devices?.[1]?.speedup === 0.1);
  check(!(await t.at("story-changed").count()), "a new story says that it was changed");
  await t.at("speed-gpu1").focus();
  await t.page.keyboard.press("End");
  await t.sent((p) => p.devices[1].speedup > 1);
  await t.at("story-changed").waitFor();
  check((await t.at("story-text").innerText()).includes("Move gpu1's slider Speed"), "the instructions are gone");
  check((await t.page.locator(".board-story").innerText()).includes("as it began"), "the text seems to be about the plan");
  await t.at("story-reset").click();
  await t.sent((p) => p.devices[1].speedup === 0.1, "the story starts over");
  check(!(await t.at("story-changed").count()), "it still says that it was changed");
  // The text is about the step, and a look at the training is no change of it.
  await t.at("tab-training").click();
  await t.at("story-back").click();
  await until(async () => (await t.at("tab-step").getAttribute("aria-selected")) === "true", "the step is back");
  for (const name of ["story-changed", "story-elsewhere"]) check(!(await t.at(name).count()), `${name} is shown`);
});

test("stories_of_a_training_show_the_step_of_the_cluster", async (t) => {
  await t.open();
  await t.at("story-4").click();
  await t.sent((p) => p.cluster?.mode === "sync");
  const { training, step_s } = await t.compare();
  same(Number(await t.at("in-cluster").getAttribute("data-value")), training.step_s.median, "step of the cluster");
  check(training.step_s.median > step_s, "the cluster is faster than a worker");
  const size = (name) => t.at(name).evaluate((e) => parseFloat(getComputedStyle(e).fontSize));
  check((await size("in-cluster")) > (await size("step-time")), "the step of one worker is the larger number");
});

test("stories_of_a_training_compare_the_cluster_with_one_worker", async (t) => {
  for (const number of [4, 5, 6]) {
    await t.open();
    await t.at(`story-${number}`).click();
    await t.sent((p) => p.cluster);
    const { training, step_s } = await t.compare();
    const batch = t.shown.plan.graph.batch;
    const value = async (name) => Number(await t.at(name).getAttribute("data-value"));
    same(await value("cluster-rate"), training.examples_per_s, "images per second");
    const times = (training.examples_per_s * step_s) / batch;
    check(Math.abs((await value("cluster-times")) / times - 1) < 1e-9, `not ${times} times one worker`);
    check(times > 0.5 && times < 5, `${times} times one worker`);
    same(await t.at("in-total").count(), training.losses.length ? 1 : 0, "the total is the large number");
  }
});

test("stories_begin_at_the_top", async (t) => {
  await t.open({ width: 390, height: 844 });
  await t.at("story-4").click();
  await t.sent((p) => p.cluster?.mode === "sync");
  await t.compare();
  await t.page.evaluate(() => scrollTo(0, 1000));
  check((await t.page.evaluate(() => scrollY)) > 0, "the page cannot be scrolled");
  await t.at("story-5").evaluate((e) => e.click()); // a click of the mouse would scroll to the button
  await t.sent((p) => p.cluster?.mode === "backup");
  same(await t.page.evaluate(() => scrollY), 0, "how far the page is scrolled");
});

for (const [width, height] of [[1280, 720], [390, 844]])
  for (const colorScheme of ["light", "dark"])
    test(`stories_screens_${width}x${height}_${colorScheme}`, async (t) => {
      await t.open({ width, height, colorScheme });
      for (let i = 1; i <= STORIES; i++) {
        await t.at(`story-${i}`).click();
        await t.storyIsOpen(i);
        await t.sent((p) => Boolean(p.cluster) === TRAINING.includes(i));
        await t.compare();
        check(await t.fitsWidth(), `story ${i} is wider than the window`);
        // Without the focus that the comparison left behind, and with charts and reasons that are complete.
        await t.page.evaluate(() => document.activeElement?.blur());
        const waiting = t.page.locator("[data-test^=chart-][aria-busy=true]");
        await until(async () => !(await waiting.count()), "the charts are complete");
        if ([2, 3].includes(i)) await t.at("why-text").waitFor();
        const path = join(SCREENS, `story-${i}-${width}x${height}-${colorScheme}.png`);
        await t.page.screenshot({ path, fullPage: width < 800 });
      }
    });
