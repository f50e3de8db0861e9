// Themes, the keyboard, small screens.
import { by, check, same, test, until } from "./harness.mjs";

const themeOf = (t) => t.page.evaluate(() => document.documentElement.dataset.theme);
const background = (t) => t.page.evaluate(() => getComputedStyle(document.body).backgroundColor);

test("access_theme_follows_the_system_until_it_is_chosen", async (t) => {
  await t.open({ colorScheme: "dark" });
  await t.sent();
  same(await themeOf(t), "dark", "theme on a dark system");
  const dark = await background(t);
  await t.page.emulateMedia({ colorScheme: "light" });
  await until(async () => (await themeOf(t)) === "light", "the theme follows the system");
  check((await background(t)) !== dark, "both themes have the same background");
  await t.at("theme").click();
  await until(async () => (await themeOf(t)) === "dark", "the button changes the theme");
  await t.page.reload();
  await t.sent();
  same(await themeOf(t), "dark", "chosen theme after a reload");
  await t.at("theme").click();
  await until(async () => (await themeOf(t)) === "light", "the button changes it back");
});

// All controls that can be seen and used, by their data-test. Of radio buttons, Tab reaches the chosen one, and arrows
// choose another.
const controls = (t) => t.page.evaluate(() =>
  [...document.querySelectorAll("button, input, select, a[href], [tabindex='0']")]
    .filter((e) => !e.matches(":disabled, [type=radio]:not(:checked)") && e.tabIndex >= 0)
    .filter((e) => e.checkVisibility({ visibilityProperty: true }))
    .map((e) => e.dataset.test ?? e.outerHTML.slice(0, 100)));

// How an element looks, as far as the focus may change it: its own style, that of the element around it, and that of
// the shape in it.
const looks = () => {
  const style = (e) => {
    const s = getComputedStyle(e);
    return [s.outlineStyle, s.outlineColor, s.outlineWidth, s.boxShadow, s.stroke, s.strokeWidth, s.borderColor].join();
  };
  window.lookOf = (e) => [e, e.parentElement, e.querySelector("rect")].filter(Boolean).map(style).join(" ");
};

async function tabThrough(t, most) {
  await t.page.evaluate(looks);
  await t.page.evaluate(() => {
    document.activeElement?.blur();
    window.unfocused = new Map([...document.querySelectorAll("*")].map((e) => [e, window.lookOf(e)]));
  });
  const seen = new Set();
  for (let i = 0; i < most; i++) {
    await t.page.keyboard.press("Tab");
    const [name, changed] = await t.page.evaluate(() => {
      const e = document.activeElement;
      return [e.dataset.test ?? e.outerHTML.slice(0, 100), window.unfocused.get(e) !== window.lookOf(e)];
    });
    if (name.startsWith("<body")) continue;
    check(changed, `${name} does not show that it has the focus`);
    seen.add(name);
  }
  return seen;
}

for (const story of [2, 4])
  test(`access_tab_reaches_every_control_of_story_${story}`, async (t) => {
    await t.open();
    await t.at(`story-${story}`).click();
    await t.sent((p) => (story === 2 ? p.devices?.length === 2 : Boolean(p.cluster)));
    const all = await controls(t);
    check(all.length > 15, `only ${all.length} controls`);
    const seen = await tabThrough(t, all.length + 5);
    same(all.filter((c) => !seen.has(c)), [], "controls that Tab does not reach");
  });

test("access_every_control_has_a_name", async (t) => {
  await t.open();
  for (const story of [2, 6]) {
    await t.at(`story-${story}`).click();
    await t.sent((p) => Boolean(p.cluster) === (story === 6));
    const nameless = await t.page.evaluate(() => [...document.querySelectorAll("button, input, select")]
      .filter((e) => e.checkVisibility() && !e.ariaLabel && !e.innerText?.trim() && !e.labels?.length && !e.title)
      .map((e) => e.outerHTML.slice(0, 100)));
    same(nameless, [], `controls of story ${story} without a name`);
  }
});

test("access_keyboard_alone", async (t) => {
  await t.open();
  await t.sent();
  await t.at("story-2").focus();
  await t.page.keyboard.press("Enter");
  await t.sent((p) => p.devices?.length === 2, "Enter opens a story");
  await t.at("add-gpu").focus();
  await t.page.keyboard.press("Space");
  await t.sent((p) => p.devices?.length === 3, "Space adds a device");
  await t.compare();
  await t.at("speed-gpu1").focus();
  await t.page.keyboard.press("ArrowRight");
  await t.sent((p) => p.devices[1].speedup > 1, "an arrow moves a slider");
  await t.compare();
  await t.at("speed-gpu1").focus();
  await t.page.keyboard.press("Home");
  await t.sent((p) => p.devices[1].speedup === 0.01, "Home moves a slider to its end");
  await t.compare();
  await t.at("tab-step").focus();
  await t.page.keyboard.press("ArrowRight");
  await t.becomes("tab-training", "aria-selected", "true", "an arrow changes the tab");
  await t.page.keyboard.press("ArrowLeft");
  await t.becomes("tab-step", "aria-selected", "true", "an arrow changes it back");
  await t.at("theme").focus();
  const before = await themeOf(t);
  await t.page.keyboard.press("Enter");
  await until(async () => (await themeOf(t)) !== before, "Enter changes the theme");
});

test("access_phone_has_no_horizontal_overflow", async (t) => {
  await t.open({ width: 390, height: 844, isMobile: true, hasTouch: true });
  for (let story = 1; story <= 6; story++) {
    await t.at(`story-${story}`).tap();
    await t.storyIsOpen(story);
    await t.sent();
    for (const tab of ["tab-training", "tab-step"]) {
      await t.at(tab).tap();
      await t.becomes(tab, "aria-selected", "true", `${tab} is chosen`);
      same(await t.page.evaluate(() => document.documentElement.scrollWidth), 390, `width of story ${story}, ${tab}`);
    }
  }
  // 24 pixels are the least that WCAG 2.2 asks for.
  const small = await t.page.evaluate(() => [...document.querySelectorAll("button, select, input:not([type=range])")]
    .filter((e) => e.checkVisibility() && e.getBoundingClientRect().height < 24)
    .map((e) => e.dataset.test ?? e.outerHTML.slice(0, 80)));
  same(small, [], "controls that are too small for a finger");
});

test("access_phone_controls_work", async (t) => {
  await t.open({ width: 390, height: 844, isMobile: true, hasTouch: true });
  await t.at("story-2").tap();
  await t.sent((p) => p.devices?.length === 2);
  await t.at("add-cpu").tap();
  await t.sent((p) => p.devices.length === 3);
  await t.at("speed-cpu0").fill("120");
  await t.sent((p) => p.devices[2].speedup !== undefined);
  await t.compare();
});

test("access_narrow_and_short_windows_fit", async (t) => {
  await t.open();
  await t.sent();
  for (const [width, height] of [[320, 568], [600, 900], [900, 500], [1024, 768], [1920, 1080]]) {
    await t.page.setViewportSize({ width, height });
    check(await t.fitsWidth(), `${width} x ${height} is too narrow`);
    check(await t.page.locator(by("step-time")).isVisible(), `no step time at ${width} x ${height}`);
  }
});
