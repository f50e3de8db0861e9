// node demo_page.mjs BUILD PAGE.html [PART]: the page that is one file, opened by its path.
//
// Whatever the page asks its simulator is recorded, and each answer must be what `millrace sim --json` prints for the
// same plan, byte for byte. The page may request nothing but itself, and may write nothing to the console.
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";
import { inflateRawSync } from "node:zlib";
import {
  DEADLINE_MS, Failed, GOLDEN, ROOT, SCREENS, TENSORFLOW_GOLDEN, by, check, millrace, same, startBrowser, until,
} from "./harness.mjs";
import { randomPlan } from "./random_plans.mjs";

const [build, file, part = ""] = process.argv.slice(2);
const PAGE = new URL(`file://${resolve(file)}`).href;
const RANDOM_PLANS = 48;
const tests = [];
const test = (name, run, options = {}) => tests.push({ name, run, ...options });

// Runs in the page before its scripts: keeps questions and answers of all workers in window.asked.
function recordWorkers() {
  window.asked = [];
  window.workers = 0;
  window.Worker = class extends Worker {
    constructor(url) {
      super(url);
      window.workers++;
      this.addEventListener("message", (e) => Object.assign(this.last, e.data));
    }
    postMessage(m) {
      if (m.target) window.asked.push((this.last = m.body instanceof Uint8Array ? { target: m.target } : { ...m }));
      super.postMessage(m);
    }
  };
}

class Page {
  constructor(browser, dir) {
    Object.assign(this, { browser, dir, problems: [], expected: [], compared: 0, paths: [] });
  }

  async open(hash = "", options = {}) {
    this.context = await this.browser.newContext({ viewport: { width: 1280, height: 720 }, reducedMotion: "reduce",
      ...options });
    const page = (this.page = await this.context.newPage());
    page.setDefaultTimeout(DEADLINE_MS);
    await page.addInitScript(recordWorkers);
    page.on("console", (m) => ["error", "warning"].includes(m.type()) && this.problems.push(`console: ${m.text()}`));
    page.on("pageerror", (e) => this.problems.push(`exception: ${e.stack}`));
    page.on("request", (r) => {
      if (r.url().split("#")[0] !== PAGE && !/^(data|blob):/.test(r.url())) this.problems.push(`request: ${r.url()}`);
    });
    await page.goto(PAGE + hash);
    await this.settled();
  }

  at(name) {
    return this.page.locator(by(name)).first();
  }

  // Waits until the page shows the answer to its plan, and no question is open.
  settled() {
    return until(() => this.page.evaluate((busy) => {
      const last = window.asked.filter((q) => q.target === "/api/simulate").at(-1);
      return last?.status !== undefined && window.asked.every((q) => q.status !== undefined) &&
        document.querySelector(busy)?.dataset.on !== "true" &&
        !document.querySelector("[data-test^=chart-][aria-busy=true]");
    }, by("busy")), async () => `all questions are answered: ${await this.page.evaluate(() =>
      JSON.stringify(window.asked.filter((q) => q.status === undefined)).slice(0, 300))}`);
  }

  // Compares all answers since the last comparison with the command's. Returns how many questions of each kind were
  // answered.
  async compare() {
    const all = await this.page.evaluate(() => {
      const answered = window.asked.filter((q) => q.status !== undefined);
      window.asked = window.asked.filter((q) => q.status === undefined);
      return answered;
    });
    const kinds = {};
    for (const q of all) {
      const url = new URL(q.target, "http://board");
      kinds[url.pathname] = (kinds[url.pathname] ?? 0) + 1;
      if (url.pathname === "/api/start" || url.pathname === "/api/files") continue;
      const plan = JSON.parse(q.body);
      if (plan.graph?.file) {
        const path = this.paths[Number(plan.graph.file.slice(1)) - 1];
        check(path, `${plan.graph.file} is not a file of this test`);
        plan.graph.file = path;
      }
      const planFile = join(this.dir, "plan.json");
      writeFileSync(planFile, JSON.stringify(plan));
      const p = url.searchParams;
      const options = url.pathname === "/api/explain" ? ["--explain"]
        : url.pathname === "/api/sweep" ? ["--sweep", `${p.get("what")}=${p.get("from")}..${p.get("to")}`] : [];
      const names = url.pathname === "/api/explain" ? [p.get("node")] : [];
      const want = await millrace(build, "sim", "--json", ...options, planFile, ...names);
      check(q.status === 200, `${q.target}: ${q.status} ${q.text}`);
      if (q.text !== want) {
        let i = 0;
        while (q.text[i] === want[i]) i++;
        throw new Failed(`${q.target} differs at byte ${i}: ${q.text.slice(i - 60, i + 60)}\ninstead of ` +
          `${want.slice(i - 60, i + 60)}\nfor ${JSON.stringify(plan)}`);
      }
      this.compared++;
    }
    return kinds;
  }

  async close() {
    await this.context?.close();
    const bad = this.problems.filter((p) => !this.expected.some((e) => e.test(p)));
    check(!bad.length, bad.join("\n"));
  }
}

const hashOf = (plan) => `#j${Buffer.from(JSON.stringify({ p: plan })).toString("base64url")}`;

test("page_stories", async (t) => {
  const total = {};
  await t.open();
  for (let i = 1; i <= 6; i++) {
    await t.at(`story-${i}`).click();
    await until(async () => (await t.at(`story-${i}`).getAttribute("aria-pressed")) === "true", `story ${i} is open`);
    await until(() => t.page.evaluate(() => window.asked.length > 0), `story ${i} asks for a simulation`);
    await t.settled();
    if ([2, 3].includes(i)) await t.at("why-text").waitFor();
    if (i >= 4)
      await until(() => t.page.evaluate(() => window.asked.some((q) => q.target.startsWith("/api/sweep"))), "a sweep");
    await t.settled();
    await t.page.screenshot({ path: join(SCREENS, `page-story-${i}.png`) });
    for (const [kind, n] of Object.entries(await t.compare())) total[kind] = (total[kind] ?? 0) + n;
  }
  for (const kind of ["simulate", "explain", "sweep"]) check(total[`/api/${kind}`] > 0, `nothing asked for ${kind}`);
});

test("page_built_in_networks", async (t) => {
  await t.open();
  const names = await t.at("model").locator("option").evaluateAll((all) => all.map((o) => o.value));
  check(names.length >= 6, `only the networks ${names}`);
  for (const name of names) {
    await t.at("model").selectOption(name);
    await until(() => t.page.evaluate((n) => window.asked.some((q) => q.body &&
      JSON.parse(q.body).graph?.model === n), name), `${name} is simulated`);
    await t.settled();
    await t.compare();
  }
  check(t.compared >= names.length, `${t.compared} answers for ${names.length} networks`);
});

test("page_random_plans", async (t) => {
  await t.open();
  const models = await t.page.evaluate(() => JSON.parse(window.asked.find((q) => q.target === "/api/start").text).models);
  await t.compare();
  for (let seed = 1; seed <= RANDOM_PLANS; seed++) {
    const plan = randomPlan(models, seed);
    await t.page.evaluate((hash) => (location.hash = hash), hashOf(plan));
    await until(() => t.page.evaluate((title) => window.asked.some((q) => q.target === "/api/simulate" && q.status &&
      JSON.parse(q.body).title === title), plan.title), `${plan.title} is simulated`);
    await t.settled();
    await t.compare();
  }
  check(t.compared >= RANDOM_PLANS, `${t.compared} answers`);
});

// The files get the ids u1, u2 .. in this order.
async function open(t, path, shown = path) {
  t.paths.push(shown);
  await t.at("drop").setInputFiles(path);
  const id = `u${t.paths.length}`;
  await until(() => t.page.evaluate((f) => window.asked.some((q) => q.target === "/api/simulate" && q.status &&
    JSON.parse(q.body).graph?.file === f), id), `${path} is simulated`);
  await t.settled();
  await t.compare();
}

test("page_dropped_files", async (t) => {
  await t.open();
  for (const f of ["graphs/batch_norm_net.pb", "graphs/lstm_net.pb", "graphs/conditional_net.pb",
    "pbtxt/functions.pbtxt"])
    await open(t, join(GOLDEN, f));
  const model = join(GOLDEN, "saved_model/half_plus_two/00000001");
  await open(t, join(model, "saved_model.pb"), model);
});

test("page_dropped_saved_models_of_tensorflow", async (t) => {
  await t.open();
  for (const f of ["half_plus_two/00000123", "half_plus_two_v2/00000123", "SimpleWhileLoop"]) {
    const model = join(TENSORFLOW_GOLDEN, "saved_model", f);
    await open(t, join(model, "saved_model.pb"), model);
  }
}, { needsTensorflow: true });

test("page_dropped_plan", async (t) => {
  await t.open();
  await t.compare();
  await t.at("drop").setInputFiles(join(ROOT, "examples/sim/backup.json"));
  await until(() => t.page.evaluate(() => window.asked.some((q) => q.target === "/api/simulate" && q.status &&
    JSON.parse(q.body).cluster?.mode === "backup")), "the plan is simulated");
  await t.settled();
  await t.compare();
});

test("page_refuses_what_is_no_graph", async (t) => {
  const bad = join(t.dir, "noise.pb");
  writeFileSync(bad, Buffer.from(Array.from({ length: 1000 }, (_, i) => (i * 7919) % 256)));
  await t.open();
  await t.compare();
  await t.at("drop").setInputFiles(bad);
  await t.at("error").waitFor();
  check((await t.at("error").innerText()).length > 20, "the message explains nothing");
  await t.page.evaluate(() => (window.asked = []));
  await t.at("story-2").click(); // the next one works
  await t.at("why-text").waitFor();
  const kinds = await t.compare();
  check(kinds["/api/simulate"] > 0, "nothing was simulated");
});

// A simulation that nobody waits for any more is ended with its worker; the next one has the opened files again.
test("page_gives_up_a_long_simulation", async (t) => {
  await t.open();
  await open(t, join(GOLDEN, "graphs/batch_norm_net.pb"));
  const workers = await t.page.evaluate(() => window.workers);
  const long = { graph: { model: "transformer" }, visits: 20000000,
    devices: Array.from({ length: 8 }, () => ({ type: "GPU" })) };
  await t.page.evaluate((hash) => (location.hash = hash), hashOf(long));
  await until(() => t.page.evaluate(() => window.asked.some((q) => q.body?.includes("20000000"))), "the long one begins");
  const begin = Date.now();
  await t.at("model").selectOption({ label: "batch_norm_net.pb" });
  await until(() => t.page.evaluate(() => window.asked.some((q) => q.target === "/api/simulate" && q.status &&
    JSON.parse(q.body).graph?.file === "u1")), "the file is simulated again");
  check((await t.page.evaluate(() => window.workers)) > workers, "no new worker");
  const open_ = await t.page.evaluate(() => window.asked.filter((q) => q.status === undefined).length);
  check(open_ === 1, `${open_} questions were given up after ${Date.now() - begin} ms`);
  await t.compare();
});

test("page_state_is_in_the_address", async (t) => {
  const plan = { title: "from the address", graph: { model: "mlp", batch: 64 }, devices: [{ type: "GPU" }, { type: "CPU" }] };
  await t.open(hashOf(plan));
  const asked = await t.page.evaluate(() => window.asked.find((q) => q.target === "/api/simulate").body);
  same(JSON.parse(asked).title, plan.title, "title of the plan");
  await t.at("story-3").click();
  let hash;
  await until(async () => {
    hash = await t.page.evaluate(() => location.hash);
    const bytes = Buffer.from(hash.slice(2), "base64url");
    return JSON.parse(hash[1] === "z" ? inflateRawSync(bytes) : bytes).s === 3;
  }, "the address says that story 3 is open");
  await t.settled();
  await t.compare();
  await t.context.close();
  await t.open(hash);
  await until(async () => (await t.at("story-3").getAttribute("aria-pressed")) === "true", "story 3 is open again");
  await t.compare();
});

test("page_has_licences", async (t) => {
  await t.open();
  await t.at("licenses").locator("summary").click();
  const text = await t.at("licenses").innerText();
  for (const name of ["Apache License", "preact", "musl", "Emscripten"]) check(text.includes(name), `no licence of ${name}`);
  await t.page.screenshot({ path: join(SCREENS, "page-licenses.png") });
});

test("page_on_a_phone", async (t) => {
  await t.open("", { viewport: { width: 390, height: 844 } });
  check(await t.page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "wider than the window");
  await t.page.screenshot({ path: join(SCREENS, "page-phone.png"), fullPage: true });
});

mkdirSync(SCREENS, { recursive: true });
const chosen = tests.filter((t) => t.name.includes(part));
const without = existsSync(TENSORFLOW_GOLDEN) ? [] : chosen.filter((t) => t.needsTensorflow);
const browser = await startBrowser();
const counts = { passed: 0, failed: 0, compared: 0 };
for (const one of chosen.filter((t) => !without.includes(t))) {
  const dir = mkdtempSync(join(tmpdir(), "millrace-web-test-"));
  const t = new Page(browser, dir);
  const begin = Date.now();
  try {
    await one.run(t);
    await t.close();
    counts.passed++;
    counts.compared += t.compared;
    console.log(`ok ${one.name} (${t.compared} answers compared, ${((Date.now() - begin) / 1000).toFixed(1)} s)`);
  } catch (e) {
    counts.failed++;
    console.log(`FAILED ${one.name}: ${e instanceof Failed ? e.message : e.stack}`);
    for (const p of t.problems) console.log(`    ${p}`);
    await t.page?.screenshot({ path: join(SCREENS, `failed-${one.name}.png`) }).catch(() => {});
    await t.context?.close().catch(() => {});
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}
await browser.close();
if (without.length) console.log(`${without.length} test needs ${TENSORFLOW_GOLDEN} and did not run`);
console.log(`${basename(file)}: ${counts.passed} passed, ${counts.failed} failed, ${counts.compared} answers compared`);
process.exit(counts.failed || !counts.passed ? 1 : 0);
