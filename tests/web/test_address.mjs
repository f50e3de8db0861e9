// The state is in the address: a new page with the same address shows the same.
import { by, check, same, test, until } from "./harness.mjs";

// What can be seen of the state.
const look = (t) => t.page.evaluate(() => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  return {
    tab: all("[role=tab][aria-selected=true]").map((e) => e.dataset.test),
    story: all("[data-test^=story-][aria-pressed=true]").map((e) => e.dataset.test),
    step: document.querySelector("[data-test=step-time]").dataset.value,
    boxes: all(".graph-box").map((e) => [e.dataset.test, e.dataset.device, e.getAttribute("aria-expanded")]).sort(),
    selected: all(".graph-selected, .graph-around").map((e) => e.dataset.test),
    why: document.querySelector(".why-name")?.textContent,
    scrub: document.querySelector("[data-test=scrub]")?.value,
    fields: all("input:not([type=file]), select").map((e) => [e.dataset.test, e.value]),
    checked: all("input:checked").map((e) => e.dataset.test),
    figures: all("[data-test^=training-][data-value]").map((e) => [e.dataset.test, e.dataset.value]),
    kept: all("[data-test^=kept-]").map((e) => [e.dataset.test, e.dataset.value ?? e.textContent]),
  };
});

// Copies the link and opens it in a new context, which shares nothing with the old one.
async function reopen(t) {
  await t.page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  // The clipboard outlives a page: a link copied before must not be taken for the new one.
  await t.page.evaluate(() => navigator.clipboard.writeText(""));
  await t.at("copy-link").click();
  const link = await until(async () => {
    const text = await t.page.evaluate(() => navigator.clipboard.readText());
    return text === t.page.url() && text;
  }, "the address is copied");
  const [before, plan] = [await look(t), t.shown.plan];
  await t.open({ hash: link });
  await t.sent((p) => JSON.stringify(p) === JSON.stringify(plan), "the same plan is simulated");
  await until(async () => JSON.stringify(await look(t)) === JSON.stringify(before), async () => {
    const now = await look(t);
    const other = Object.keys(before).filter((k) => JSON.stringify(before[k]) !== JSON.stringify(now[k]));
    const both = other.map((k) => `${JSON.stringify(before[k])} and ${JSON.stringify(now[k])}`);
    return `the new page shows the same ${other}: ${both}`.slice(0, 2000);
  });
  await t.compare();
}

test("address_restores_the_step", async (t) => {
  await t.open();
  await t.at("story-3").click();
  await t.sent((p) => p.devices?.length === 2);
  await t.at("speed-gpu1").fill("70");
  await t.at("add-cpu").click();
  await t.at("overhead-gpu0").fill("30");
  await t.at("link-latency").fill("120");
  await t.sent((p) => p.devices.length === 3 && p.devices[0].op_us !== undefined && p.link.latency_us > 10);
  const scope = t.page.locator(".graph-box[aria-expanded=false]").first();
  const name = await scope.getAttribute("data-test");
  await scope.dispatchEvent("click");
  await t.page.locator(`${by(name)}[aria-expanded=true]`).waitFor();
  const node = t.page.locator(".graph-node").first();
  await node.dispatchEvent("click");
  await t.at("pin-cpu0").click();
  await t.sent((p) => p.pins?.length === 1);
  for (let i = 0; i < 5; i++) await t.at("step-forward").click();
  await reopen(t);
});

test("address_restores_the_training", async (t) => {
  await t.open();
  await t.at("story-6").click();
  await t.sent((p) => p.cluster?.crashes?.length === 1);
  await t.at("workers").fill("7");
  await t.at("checkpoint-now").click();
  await t.at("slow-worker-2").click();
  await t.at("kill-worker-1").click();
  await t.at("cut-worker-0").click();
  await t.sent((p) => p.cluster.workers === 7 && p.cluster.cuts?.length === 1 && p.cluster.crashes.length === 2);
  await t.compare();
  await reopen(t);
});

test("address_restores_what_is_kept_for_comparison", async (t) => {
  await t.open();
  await t.at("story-4").click();
  await t.sent((p) => p.cluster?.mode === "sync");
  const before = (await t.compare()).training;
  await t.at("keep").click();
  await t.at("slow-factor").fill("7");
  await t.at("slow-factor").press("Enter");
  await t.at("mode-backup").check();
  await t.at("slow-worker-1").click();
  await t.sent((p) => p.cluster?.mode === "backup" && p.cluster.slow?.at(-1)?.factor === 7);
  await reopen(t);
  same(await t.at("kept-training-total").getAttribute("data-value"), String(before.total_s), "kept total");
  check((await t.at("kept-title").innerText()).length > 10, "the title of what is kept");
  await t.at("forget-kept").click();
  await reopen(t);
  same(await t.at("kept-training-total").count(), 0, "kept figures after they were cleared");
});

test("address_follows_back_and_forward", async (t) => {
  await t.open();
  await t.sent();
  const seen = new Set();
  const isNew = (url) => url.includes("#") && !seen.has(url) && url;
  for (const number of [2, 3, 4]) {
    await t.at(`story-${number}`).click();
    await t.storyIsOpen(number);
    await t.sent((p) => (number === 4 ? Boolean(p.cluster) : p.devices?.length === 2));
    seen.add(await until(() => isNew(t.page.url()), `an address of story ${number}`));
  }
  check(seen.size === 3, "each story has its own address");
  for (const number of [3, 2]) {
    await t.page.goBack();
    await t.storyIsOpen(number);
  }
  await t.page.goForward();
  await t.becomes("story-3", "aria-pressed", "true", "forward to story 3");
  await t.sent((p) => p.devices?.[1]?.speedup === 0.1);
  await t.compare();
});
