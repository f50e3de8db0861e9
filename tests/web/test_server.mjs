// What the page shows when its server is gone, and when the address cannot be read.
import { Board, check, same, test } from "./harness.mjs";

test("server_that_is_gone_shows_an_error", async (t) => {
  t.expectErrors(/net::ERR_CONNECTION/);
  const board = await Board.start(t.build);
  const port = new URL(board.url).port;
  await t.open({ board });
  await t.at("story-2").click();
  await t.sent((p) => p.devices?.length === 2);
  await board.stop("SIGKILL");
  const step = await t.stepTime();
  await t.at("speed-gpu1").fill("0");
  await t.at("error").waitFor();
  check((await t.at("error").innerText()).includes("millrace board"), "the message does not say what to start");
  same(await t.stepTime(), step, "the step time that is still shown");
  check(await t.at("device-gpu1").isVisible(), "the page is still there");
  // When it runs again, the next change is simulated.
  const again = await Board.start(t.build, [], ["--port", port]);
  await t.at("speed-gpu1").fill("10");
  await t.sent((p) => p.devices[1].speedup < 1);
  await t.compare();
  await t.at("error").waitFor({ state: "detached" });
  await t.page.close();
  await again.stop();
});

test("server_page_of_a_damaged_link", async (t) => {
  for (const hash of ["#nonsense", "#j", "#zAAAA", "#jW10", `#j${"A".repeat(3000)}`]) {
    await t.open({ hash });
    await t.at("error").waitFor();
    await t.sent((p) => p.devices?.length === 1);
    await t.page.close();
  }
});
