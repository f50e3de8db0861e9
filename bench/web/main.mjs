// node main.mjs BUILD: how fast the page of `millrace board` is, in Chromium. Prints lines of `name value unit`, each
// the best of several runs, and fails if a value is above its limit.
//
// Times are taken in the page: they begin with the navigation or the input event, and end when the browser has painted
// the frame after the change.
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { Board, by, startBrowser } from "../../tests/web/harness.mjs";

const RUNS = 5;
const LIMIT_MS = { open: 2000, expand: 300, slider: 100 };
const HERE = dirname(fileURLToPath(import.meta.url));
let tooSlow = 0;

function report(name, times, limit_ms) {
  const best = Math.min(...times);
  const slow = best > limit_ms;
  if (slow) tooSlow++;
  console.log(`${name} ${best.toFixed(1)} ms${slow ? `  # above the limit of ${limit_ms} ms` : ""}`);
}

// Runs in the page before its scripts. window.when(f) resolves when f() is true, window.whenPainted(f) with the time
// when that is painted: a task that a frame's callback queues runs after the frame.
function addProbes() {
  window.when = (condition) => new Promise((done) => {
    if (condition()) return done();
    const watch = new MutationObserver(() => {
      if (!condition()) return;
      watch.disconnect();
      done();
    });
    watch.observe(document, { subtree: true, childList: true, attributes: true });
  });
  window.whenPainted = (condition) => window.when(condition).then(() => new Promise((done) =>
    requestAnimationFrame(() => setTimeout(() => done(performance.now())))));
  window.opened = window.whenPainted(() => document.querySelector(".graph-box"));
}

async function openPage(browser, url) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 720 } });
  const page = await context.newPage();
  await page.addInitScript(addProbes);
  await page.goto(url);
  return page;
}

// From the click on a collapsed scope until what is in it is painted.
async function timeExpanding(page, scope) {
  const name = await scope.getAttribute("data-test");
  await page.evaluate((selector) => {
    window.expanded = new Promise((done) => addEventListener("click", (e) => {
      void window.whenPainted(() => document.querySelector(selector)).then((t) => done(t - e.timeStamp));
    }, { capture: true, once: true }));
  }, `${by(name)}[aria-expanded=true]`);
  await scope.click();
  return page.evaluate(() => window.expanded);
}

// From the input event of a slider until the answer of the simulator is painted.
function timeSlider(page, position) {
  return page.evaluate(async (value) => {
    const slider = document.querySelector("[data-test^=speed-]");
    const busy = document.querySelector("[data-test=busy]");
    const start = performance.now();
    slider.value = value;
    slider.dispatchEvent(new Event("input", { bubbles: true }));
    await window.when(() => busy.dataset.on === "true");
    return (await window.whenPainted(() => busy.dataset.on === "false")) - start;
  }, String(position));
}

const build = resolve(process.argv[2] ?? "build/gcc");
const dir = mkdtempSync(join(tmpdir(), "millrace-bench-web-"));
const browser = await startBrowser();
try {
  for (const kind of ["nested", "flat"]) {
    const file = join(dir, `${kind}.pb`);
    execFileSync(process.execPath, [join(HERE, "graph.mjs"), kind, file]);
    const board = await Board.start(build, [file]);
    const opening = [], expanding = [];
    for (let i = 0; i < RUNS; i++) {
      const page = await openPage(browser, board.url);
      opening.push(await page.evaluate(() => window.opened));
      expanding.push(await timeExpanding(page, page.locator(".graph-box[aria-expanded=false]").first()));
      await page.context().close();
    }
    report(`web/open_10000_nodes_${kind}`, opening, LIMIT_MS.open);
    report(`web/expand_scope_of_10000_nodes_${kind}`, expanding, LIMIT_MS.expand);
    await board.stop();
  }
  const board = await Board.start(build);
  const page = await openPage(browser, board.url);
  await page.evaluate(() => window.opened);
  await page.locator(by("story-2")).click();
  await page.locator(by("device-gpu1")).waitFor();
  for (const model of await page.locator(`${by("model")} optgroup[label^=Built] option`).allTextContents()) {
    await page.locator(by("model")).selectOption(model);
    await page.waitForFunction(() => document.querySelector("[data-test=busy]").dataset.on === "false");
    const moving = [];
    for (let i = 0; i < 2 * RUNS; i++) moving.push(await timeSlider(page, 80 + 5 * i));
    report(`web/slider_to_redraw_${model}`, moving, LIMIT_MS.slider);
  }
  await board.stop();
} finally {
  for (const b of [...Board.all]) await b.stop();
  await browser.close();
  rmSync(dir, { recursive: true, force: true });
}
process.exit(tooSlow ? 1 : 0);
