// Writes the page that is one file: node page.mjs OUT.html SIMULATOR WORKER LICENSE..., where SIMULATOR.js and
// SIMULATOR.wasm come from Emscripten, WORKER is wasm/worker.js, and each LICENSE is a text that goes into the page.
//
// Everything is inside the page, and its Content-Security-Policy forbids all requests. Scripts of the type text/plain
// are not run: they hold what src/send-in-page.ts starts a worker with.
import { build } from "esbuild";
import { readFile, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const root = dirname(fileURLToPath(import.meta.url)); // import.meta.dirname needs Node.js 20
const [out, simulator, workerFile, ...licenses] = process.argv.slice(2);
const text = (path) => readFile(path, "utf8");

const POLICY = "default-src 'none'; script-src 'unsafe-inline' 'wasm-unsafe-eval' blob:; worker-src blob:; " +
  "style-src 'unsafe-inline'; img-src data: blob:; form-action 'none'; base-uri 'none'";

const { outputFiles } = await build({
  absWorkingDir: root,
  entryPoints: { board: "src/main.tsx" },
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  conditions: ["in-page"],
  legalComments: "none",
  jsx: "automatic",
  jsxImportSource: "preact",
  outdir: root,
  write: false,
  logLevel: "warning",
});
const bundled = (ending) => outputFiles.find((f) => f.path.endsWith(ending)).text;

// Text inside <script> and <style> ends at the first closing tag, whatever is around it.
const inside = (code, tag) => code.replaceAll(`</${tag}`, `<\\/${tag}`).replaceAll("<!--", "<\\!--");
const escaped = (s) => s.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
const plain = (id, content) => `<script type="text/plain" id="${id}">${content}</script>\n`;

// Replaces one line of index.html. A function, because "$&" in a string would be replaced, too.
function replace(html, line, content) {
  if (!html.includes(line)) throw new Error(`index.html has no line ${line}`);
  return html.replace(line, () => content);
}

const worker = `${await text(`${simulator}.js`)}\n${await text(workerFile)}`;
const wasm = gzipSync(await readFile(`${simulator}.wasm`), { level: 9 }).toString("base64");
const legal = (await Promise.all(licenses.map(text))).map((s) => s.trim()).join(`\n\n${"-".repeat(72)}\n\n`);

let html = await text(`${root}/index.html`);
html = replace(html, '<meta charset="utf-8" />',
  `<meta charset="utf-8" />\n    <meta http-equiv="Content-Security-Policy" content="${POLICY}" />`);
html = replace(html, '<link rel="stylesheet" href="board.css" />', `<style>${inside(bundled(".css"), "style")}</style>`);
html = replace(html, '<script type="module" src="board.js"></script>',
  `<details class="licenses" data-test="licenses"><summary>Licences</summary><pre>${escaped(legal)}</pre></details>\n` +
  plain("simulator-worker", inside(worker, "script")) + plain("simulator-wasm", wasm) +
  `<script type="module">${inside(bundled(".js"), "script")}</script>`);
await writeFile(out, html);
