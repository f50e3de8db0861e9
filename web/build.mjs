// Bundles the page into build/web: node build.mjs [OUT_DIR]. Everything is one script and one style sheet, because
// the server embeds the files and the page must not load anything else.
import { build } from "esbuild";
import { copyFile, mkdir, readFile, readdir, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(fileURLToPath(import.meta.url)); // import.meta.dirname needs Node.js 20
const out = resolve(process.argv[2] ?? join(root, "../build/web"));

// The licences of all bundled libraries, as their authors wrote them.
async function licenses() {
  const { dependencies } = JSON.parse(await readFile(join(root, "package.json"), "utf8"));
  const lock = JSON.parse(await readFile(join(root, "package-lock.json"), "utf8")).packages;
  const seen = new Map();
  const visit = async (name) => {
    if (seen.has(name)) return;
    const dir = join(root, "node_modules", name);
    const file = (await readdir(dir)).find((f) => /^licen[sc]e/i.test(f));
    const about = JSON.parse(await readFile(join(dir, "package.json"), "utf8"));
    const text = file ? await readFile(join(dir, file), "utf8") : `Licence: ${about.license}\n`;
    seen.set(name, `${name} ${about.version} (${about.license})\n\n${text.trim()}\n`);
    for (const next of Object.keys(lock[`node_modules/${name}`]?.dependencies ?? {})) await visit(next);
  };
  for (const name of Object.keys(dependencies)) await visit(name);
  return [...seen.keys()].sort().map((name) => seen.get(name)).join(`\n${"-".repeat(72)}\n\n`);
}

await mkdir(out, { recursive: true });
const { metafile } = await build({
  absWorkingDir: root,
  entryPoints: { board: "src/main.tsx" },
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  legalComments: "none",
  jsx: "automatic",
  jsxImportSource: "preact",
  outdir: out,
  logLevel: "warning",
  metafile: true,
});
await copyFile(join(root, "index.html"), join(out, "index.html"));
await writeFile(join(out, "licenses.txt"), await licenses());
// tests/web compares it with licenses.txt.
await writeFile(join(root, "node_modules/.bundled.json"), JSON.stringify(metafile));
