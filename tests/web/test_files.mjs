// The files that the build uses and makes: no addresses in the lock file, and all licences.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { ROOT, WORK, check, same, test } from "./harness.mjs";

const read = (...path) => readFileSync(join(...path), "utf8");

test("files_lock_has_no_addresses", () => {
  const text = read(ROOT, "web/package-lock.json");
  same(text.match(/https?:[^"]*/g) ?? [], [], "addresses in web/package-lock.json");
  for (const [name, p] of Object.entries(JSON.parse(text).packages))
    check(!p.resolved && !p.funding, `${name} in web/package-lock.json has 'resolved' or 'funding'`);
});

test("files_lock_has_the_versions_of_the_package", () => {
  const { dependencies, devDependencies } = JSON.parse(read(ROOT, "web/package.json"));
  const { packages } = JSON.parse(read(ROOT, "web/package-lock.json"));
  for (const [name, version] of Object.entries({ ...dependencies, ...devDependencies }))
    same(packages[`node_modules/${name}`]?.version, version, `version of ${name} in web/package-lock.json`);
});

test("files_licenses_lists_every_bundled_package", () => {
  const bundled = new Set();
  for (const input of Object.keys(JSON.parse(read(WORK, "node_modules/.bundled.json")).inputs)) {
    const name = /.*node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(input)?.[1];
    if (name) bundled.add(name);
  }
  const text = read(ROOT, "build/web/licenses.txt");
  check(bundled.has("preact"), "preact is not bundled: the list of bundled files is not read correctly");
  for (const name of bundled) {
    const { version, license } = JSON.parse(read(WORK, "node_modules", name, "package.json"));
    const at = text.indexOf(`${name} ${version} (${license})\n`);
    check(at >= 0, `build/web/licenses.txt does not list ${name} ${version}`);
    check(/permission|redistribution|licen[sc]e/i.test(text.slice(at, at + 2000).split("\n").slice(1).join("\n")),
      `build/web/licenses.txt has no licence text for ${name}`);
  }
});
