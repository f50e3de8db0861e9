// What the tests of the board's page are written with.
//
// A test is test(name, async (t) => ...). t.open() starts a `millrace board` for this test and opens its page; t.page
// is the page of Playwright. t records the plans that the page sends and their answers; t.sent(...) waits until the
// page shows the answer to a certain plan, and t.compare() runs `millrace sim --json` with the same plan. Nothing waits
// for a fixed time.
//
// After each test, messages on the console, violations of the Content-Security-Policy and requests to other hosts are
// failures, unless the test has said t.expectErrors().
import { execFile, spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { cpus, tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

export const HERE = dirname(fileURLToPath(import.meta.url));
export const ROOT = resolve(HERE, "../..");
export const WORK = join(ROOT, "build/web-work");
export const SCREENS = join(ROOT, "build/web-screens");
export const GOLDEN = join(ROOT, "tests/golden");
export const TENSORFLOW_GOLDEN = process.env.MILLRACE_GOLDEN ?? resolve(ROOT, "../shared/golden");
export const DEADLINE_MS = 30_000; // of one wait; on an idle machine, each takes well below a second

const { chromium } = createRequire(join(WORK, "package.json"))("playwright-core");
const tests = [];
const MOST_TABLE_ROWS = 2000; // of web/src/timeline.tsx
const ALWAYS_SHOWN = ["training-total", "training-steps-per-s", "training-examples-per-s", "training-lost"];
const sum = (list) => list.reduce((a, b) => a + b, 0);

export class Failed extends Error {}

export function check(condition, what) {
  if (!condition) throw new Failed(what);
}

export function same(have, want, what) {
  const [a, b] = [JSON.stringify(have), JSON.stringify(want)];
  check(a === b, `${what}: ${cut(a)} instead of ${cut(b)}`);
}

const cut = (s) => (s === undefined ? "undefined" : s.length > 300 ? `${s.slice(0, 300)}...` : s);

export function test(name, run, options = {}) {
  tests.push({ name, run, ...options });
}

// Calls probe until it returns something true, and returns that.
export async function until(probe, what) {
  const end = Date.now() + DEADLINE_MS;
  for (;;) {
    const value = await probe();
    if (value) return value;
    check(Date.now() < end, `not within ${DEADLINE_MS / 1000} s: ${typeof what === "function" ? await what() : what}`);
    await new Promise((done) => setTimeout(done, 10));
  }
}

// ---- the command ----

// Runs the command; returns its standard output, or throws what it wrote to standard error.
export function millrace(build, ...args) {
  return new Promise((done, fail) => {
    execFile(join(build, "bin/millrace"), args, { maxBuffer: 1 << 28 }, (e, out, err) =>
      e ? fail(new Failed(`millrace ${args.join(" ")}: ${err || e}`)) : done(out));
  });
}

// A `millrace board` on a free port. It is stopped by stop(), and when the tests end.
export class Board {
  static all = new Set();

  static async start(build, files = [], options = []) {
    const b = new Board();
    b.process = spawn(join(build, "bin/millrace"), ["board", "--port", "0", ...options, ...files], {
      stdio: ["ignore", "pipe", "pipe"],
    });
    Board.all.add(b);
    b.output = "";
    b.ended = new Promise((done) => b.process.on("exit", (code, signal) => {
      b.over = signal ?? `exit code ${code}`;
      done();
    }));
    for (const stream of [b.process.stdout, b.process.stderr]) stream.on("data", (d) => (b.output += d));
    const address = await until(() => /http:\/\/\S+/.exec(b.output) ?? b.over, () => `an address in '${b.output}'`);
    check(typeof address !== "string", `millrace board ended with ${b.over}: ${b.output}`);
    b.url = address[0];
    return b;
  }

  async stop(signal = "SIGTERM") {
    Board.all.delete(this);
    if (!this.over) this.process.kill(signal);
    await this.ended;
  }
}

// ---- the browser ----

// Runs in the page before its scripts: keeps what is drawn on the canvas of the timeline in window.drawnTimeline. A
// drawing begins with clearRect, then the background of each row, then the spans; it ends with the background of the
// names.
function recordTimeline() {
  const of = CanvasRenderingContext2D.prototype;
  const { clearRect, fillRect, roundRect } = of;
  const isTimeline = (c) => c.canvas.classList.contains("timeline-body");
  let drawing = null;
  of.clearRect = function (...a) {
    if (isTimeline(this)) drawing = { from: 0, gutter: 0, width: a[2], rows: [], rects: [], lines: false, idle: null };
    return clearRect.apply(this, a);
  };
  of.fillRect = function (x, y, w, h) {
    if (isTimeline(this) && drawing) {
      drawing.idle ??= this.fillStyle;
      if (x === 0) {
        drawing.gutter = w;
        drawing.from = x;
        window.drawnTimeline = drawing;
      } else if (!drawing.lines && this.fillStyle === drawing.idle) drawing.rows.push({ top: y, height: h });
      else if (w === 1 && y === 0) drawing.lines = true; // marks of the axis
      else drawing.rects.push({ x, y, w, h });
    }
    return fillRect.call(this, x, y, w, h);
  };
  of.roundRect = function (x, y, w, h, ...rest) {
    if (isTimeline(this) && drawing) drawing.rects.push({ x, y, w, h });
    return roundRect.call(this, x, y, w, h, ...rest);
  };
}

export function chromiumPath() {
  const folders = (process.env.PATH ?? "").split(":");
  const found = ["/usr/bin/chromium", ...folders.map((f) => join(f, "chromium"))].find((f) => existsSync(f));
  check(found, "no Chromium: it needs the package chromium");
  return found;
}

// As root Chromium has no sandbox. The other options keep it from asking the internet for anything.
export function startBrowser() {
  return chromium.launch({
    executablePath: chromiumPath(),
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
      "--disable-component-update", "--disable-sync"],
  });
}

export const by = (name) => `[data-test="${name}"]`;

// One test: its page, what the page sent, and what went wrong in it.
export class Test {
  constructor(shared, name) {
    Object.assign(this, shared); // build, browser, dir
    this.name = name;
    this.simulations = []; // {plan, text, status}: what the page sent to /api/simulate; text once it is answered
    this.problems = [];
    this.paths = new Map(); // name of a file on the server -> path
    this.expected = [];
    this.contexts = [];
  }

  expectErrors(...patterns) {
    this.expected.push(...patterns);
  }

  // Opens a page. hash is the state in the address; the other options are Playwright's.
  async open({ hash = "", board, width = 1280, height = 720, ...options } = {}) {
    board ??= this.board ??= await Board.start(this.build);
    const context = await this.browser.newContext({ viewport: { width, height }, reducedMotion: "reduce", ...options });
    this.contexts.push(context);
    const page = (this.page = await context.newPage());
    page.setDefaultTimeout(DEADLINE_MS);
    this.simulations = [];
    this.shown = undefined;
    await page.addInitScript(recordTimeline);
    await page.addInitScript(() => {
      document.addEventListener("securitypolicyviolation", (e) =>
        console.error(`violates the Content-Security-Policy: ${e.violatedDirective} ${e.blockedURI}`));
    });
    page.on("console", (m) => ["error", "warning"].includes(m.type()) && this.problems.push(`console: ${m.text()}`));
    page.on("pageerror", (e) => this.problems.push(`exception: ${e.stack}`));
    page.on("request", (r) => this.note(r, board));
    page.on("response", (r) => this.noteAnswer(r));
    await page.goto(new URL(hash, board.url).href);
    return page;
  }

  note(request, board) {
    const url = new URL(request.url());
    if (url.protocol !== "data:" && url.protocol !== "blob:" && url.host !== new URL(board.url).host)
      this.problems.push(`request to another host: ${url}`);
    if (url.pathname.endsWith("/api/simulate")) {
      const s = { request, plan: JSON.parse(request.postData()) };
      this.simulations.push(s);
      // A request that a newer one replaced never has an answer.
    }
  }

  async noteAnswer(response) {
    const s = this.simulations.find((x) => x.request === response.request());
    if (!s) return;
    try {
      const text = await response.text();
      Object.assign(s, { text, status: response.status() });
    } catch {
      // The page gave it up.
    }
  }

  // The path of a file that the server knows by an id. Tests say in t.paths which path has which name.
  async pathOf(id) {
    const { files } = await (await fetch(new URL("api/start", this.page.url()))).json();
    const name = files.find((f) => f.id === id)?.name;
    check(this.paths.has(name), `the server has no file ${id} of this test: ${JSON.stringify(files)}`);
    return this.paths.get(name);
  }

  at(name) {
    return this.page.locator(by(name)).first();
  }

  becomes(name, attribute, value, what) {
    return until(async () => (await this.at(name).getAttribute(attribute)) === value, what);
  }

  storyIsOpen(number) {
    return this.becomes(`story-${number}`, "aria-pressed", "true", `story ${number} is open`);
  }

  // Whether nothing is wider than the window.
  fitsWidth() {
    return this.page.evaluate(() => document.documentElement.scrollWidth <= innerWidth);
  }

  // ---- what the page has sent and shows ----

  // Waits until the newest plan that satisfies the condition is answered, and the page shows its result. Returns the
  // plan. Other plans may be newer, because the page asks for some only to compare them. Plans before the one that was
  // shown when this was last called do not count.
  async sent(condition = () => true, what = "the page sends the plan") {
    let last;
    await until(async () => {
      const from = Math.max(0, this.simulations.indexOf(this.shown));
      last = this.simulations.slice(from).findLast((s) => condition(s.plan));
      return last?.status === 200 && (await this.shows(last));
    }, async () => `${what}; the newest plan is ${cut(JSON.stringify(this.simulations.at(-1)?.plan))}, ` +
      `answered ${this.simulations.at(-1)?.status}, and the page shows a step of ${await this.stepTime()} s`);
    this.shown = last;
    return last.plan;
  }

  async shows(simulation) {
    const r = (simulation.result ??= JSON.parse(simulation.text));
    if ((await this.stepTime()) !== r.step_s) return false;
    if ((await this.at("busy").getAttribute("data-on")) === "true") return false;
    const total = this.at("training-total");
    return !(await total.count()) || (await total.getAttribute("data-value")) === String(r.training?.total_s);
  }

  async stepTime() {
    const e = this.at("step-time");
    return (await e.count()) ? Number(await e.getAttribute("data-value")) : undefined;
  }

  // Runs `millrace sim --json` with the plan that the page shows: the server must have answered the same bytes, and all
  // that the page shows must be in them. Returns the command's answer.
  async compare() {
    const result = await this.command();
    same(await this.stepTime(), result.step_s, "step time");
    if (await this.at("timeline").count()) {
      await this.compareGraph(result);
      await this.compareTable(result);
      await this.compareDrawing(result);
      await this.compareCards(result);
    }
    if (await this.at("training-total").count()) await this.compareTraining(result.training);
    return result;
  }

  // Runs `millrace sim --json OPTIONS PLAN NAMES` with the plan that the page shows.
  async command(options = [], names = []) {
    const plan = structuredClone(this.shown.plan);
    if (plan.graph?.file) {
      plan.graph.file = await this.pathOf(plan.graph.file);
    }
    const file = join(this.dir, "plan.json");
    writeFileSync(file, JSON.stringify(plan));
    const text = await millrace(this.build, "sim", "--json", ...options, file, ...names);
    if (!options.length)
      check(text === this.shown.text,
        `the server's answer differs from millrace sim --json:\n${cut(this.shown.text)}\n${cut(text)}`);
    return JSON.parse(text);
  }

  // Every visible box of the graph has the device, or all devices, of its nodes.
  async compareGraph(result) {
    const boxes = await this.page.$$eval(".graph-box", (all) =>
      all.map((e) => [e.dataset.test, e.dataset.key, e.dataset.device]));
    const devices = result.devices.map((d) => d.name);
    const of = new Map(result.nodes.map((n) => [n.name, n.device]));
    check(boxes.length > 0, "the graph is empty");
    for (const [test, key, device] of boxes) {
      if (test.startsWith("node-")) same(device, of.get(key), `device of ${key}`);
      else if (/^[^*#]*$/.test(key)) {
        const inside = new Set(result.nodes.filter((n) => n.name.startsWith(key)).map((n) => n.device));
        same(device.split(" ").sort(), [...inside].sort(), `devices of ${key}`);
        same(devices.filter((d) => inside.has(d)).join(" "), device, `order of the devices of ${key}`);
      }
    }
  }

  // The table below the timeline has every span, with all digits.
  async compareTable(result) {
    same(Number(await this.at("timeline").getAttribute("data-step")), result.step_s, "step time of the timeline");
    const spans = [
      ...result.nodes.map((n) => [n.device, n.name, n.start_s, n.end_s]),
      ...result.transfers.map((x) => [`${x.from} → ${x.to}`, x.tensor, x.start_s, x.arrival_s]),
    ];
    if (spans.length > MOST_TABLE_ROWS) return;
    const table = this.at("timeline-table");
    await this.at("timeline-as-table").click();
    await table.waitFor();
    const rows = await until(async () => {
      const all = await table.locator("tr[data-row]").evaluateAll((list) =>
        list.map((e) => [e.dataset.row, e.dataset.name, Number(e.dataset.start), Number(e.dataset.end)]));
      return all.length === spans.length && all;
    }, async () => `${spans.length} rows in the table, not ${await table.locator("tr[data-row]").count()}`);
    await this.at("timeline-table-close").click();
    await table.waitFor({ state: "detached" });
    const sorted = (list) => list.map((x) => JSON.stringify(x)).sort();
    const [have, want] = [sorted(rows), sorted(spans)];
    have.forEach((row, i) => check(row === want[i], `row of the timeline: ${row} instead of ${want[i]}`));
  }

  // What was drawn on the canvas: in each row, a column of pixels is coloured if and only if something runs there.
  // Columns at the edges of spans are left out, because narrow spans are widened and wide ones have a gap.
  async compareDrawing(result) {
    const drawn = await this.page.evaluate(() => window.drawnTimeline);
    const { from, gutter, width, rows, rects } = drawn;
    same(from, 0, "left end of the drawn background");
    const names = [...result.devices.map((d) => d.name)];
    same(rows.length >= names.length, true, "the timeline has a row for each device");
    const x = (s) => gutter + (s / result.step_s) * (width - gutter);
    names.forEach((name, i) => {
      const { top, height } = rows[i];
      const spans = result.nodes.filter((n) => n.device === name).map((n) => [x(n.start_s), x(n.end_s)]);
      const mine = rects.filter((r) => r.y >= top - 1 && r.y < top + height).map((r) => [r.x, r.x + r.w]);
      const covers = (list, c, slack) => list.some(([a, b]) => a - slack <= c && c <= b + slack);
      for (let c = Math.ceil(gutter) + 0.5; c < width; c++) {
        if (covers(spans, c, -2.5)) check(covers(mine, c, 0), `${name} runs at pixel ${c}, but it is not drawn`);
        else if (!covers(spans, c, 2.5)) check(!covers(mine, c, 0), `${name} is idle at pixel ${c}, but it is drawn`);
      }
    });
  }

  async compareCards(result) {
    for (const d of result.devices) {
      const text = await this.at(`busy-${d.name}`).textContent();
      const percent = Math.round((d.busy_s / result.step_s) * 100);
      same(text, `${percent} % busy, ${d.nodes} nodes`, `card of ${d.name}`);
    }
  }

  // The figures of the training, with all digits.
  async compareTraining(training) {
    const figures = {
      "training-total": training.total_s, "training-ideal": training.ideal_s,
      "training-steps-per-s": training.steps_per_s,
      "training-examples-per-s": training.examples_per_s, "training-step-median": training.step_s.median,
      "training-step-p99": training.step_s.p99, "training-step-max": training.step_s.max, "training-ps-busiest": training.ps_busiest,
      "training-staleness": training.staleness.mean, "training-dropped": training.dropped,
      "training-checkpoints": training.checkpoints, "training-lost": sum(training.losses.map((l) => l.lost_steps)),
      "training-restored": training.losses.map((l) => l.checkpoint_at_s).filter((t) => t !== null).at(-1) ?? null,
    };
    const shown = await this.page.$$eval("[data-test^=training-][data-value]", (all) =>
      Object.fromEntries(all.map((e) => [e.dataset.test, e.dataset.value])));
    for (const [name, value] of Object.entries(figures)) {
      if (ALWAYS_SHOWN.includes(name) || name in shown) same(shown[name], String(value), name);
    }
    if (training.losses.length) check("training-restored" in shown, "the page does not name the restored checkpoint");
  }

  async close() {
    for (const c of this.contexts) await c.close();
    await this.board?.stop();
    const bad = this.problems.filter((p) => !this.expected.some((e) => e.test(p)));
    check(!bad.length, bad.join("\n"));
  }
}

// ---- running ----

// Takes tests from the list until none is left, with a browser of its own: pages of one browser share the clipboard.
async function work(build, queue, counts) {
  const browser = await startBrowser();
  try {
    for (let one = queue.shift(); one; one = queue.shift()) {
      const dir = mkdtempSync(join(tmpdir(), "millrace-web-test-"));
      const t = new Test({ build, browser, dir }, one.name);
      const start = Date.now();
      try {
        await one.run(t);
        await t.close();
        counts.passed++;
        console.log(`ok ${one.name} (${((Date.now() - start) / 1000).toFixed(1)} s)`);
      } catch (e) {
        counts.failed++;
        console.log(`FAILED ${one.name}: ${e instanceof Failed ? e.message : e.stack}`);
        for (const p of t.problems) console.log(`    ${p}`);
        await t.page?.screenshot({ path: join(SCREENS, `failed-${one.name}.png`) }).catch(() => {});
        await t.close().catch(() => {});
      } finally {
        rmSync(dir, { recursive: true, force: true });
      }
    }
  } finally {
    await browser.close();
  }
}

// Runs the tests whose names contain the part, one per core and at most 4 at a time. Returns whether all passed.
export async function runTests(build, part) {
  const chosen = tests.filter((t) => t.name.includes(part));
  const there = existsSync(TENSORFLOW_GOLDEN);
  const without = chosen.filter((t) => t.needsTensorflow && !there);
  const queue = chosen.filter((t) => !without.includes(t));
  mkdirSync(SCREENS, { recursive: true });
  for (const f of readdirSync(SCREENS)) if (f.startsWith("failed-")) rmSync(join(SCREENS, f));
  const begin = Date.now();
  const counts = { passed: 0, failed: 0 };
  const workers = Math.max(1, Math.min(4, cpus().length, queue.length));
  try {
    await Promise.all(Array.from({ length: workers }, () => work(resolve(build), queue, counts)));
  } finally {
    for (const b of [...Board.all]) await b.stop();
  }
  if (without.length) console.log(`${without.length} tests need ${TENSORFLOW_GOLDEN} and did not run`);
  console.log(`${counts.passed} passed, ${counts.failed} failed in ${((Date.now() - begin) / 1000).toFixed(0)} s`);
  return counts.failed === 0 && counts.passed > 0;
}
