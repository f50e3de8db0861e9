// Opening files: dropped anywhere onto the page, chosen with the button, or given on the command line.
import { useEffect } from "preact/hooks";
import { batch, signal } from "@preact/signals";
import { api } from "./api";
import { expanded, files, messageOf, notice, plan, playing, selected, setPlan, story, tab, time } from "./state";
import { playhead as trainingTime } from "./training-state";
import type { BoardFile, Plan } from "./types";

const dragging = signal(false);
const uploading = signal<string | null>(null); // name of the file

function showPlan(next: Plan): Promise<void> {
  return batch(() => {
    notice.value = null;
    story.value = null;
    selected.value = null;
    expanded.value = new Set();
    time.value = 0;
    playing.value = false;
    trainingTime.value = null;
    tab.value = next.cluster && !next.graph?.file ? "training" : "step";
    return setPlan(next);
  });
}

// Shows a file that the server has: a plan as it is, a graph on the current devices.
export function openFile(f: BoardFile): Promise<void> {
  if (f.plan) return showPlan(structuredClone(f.plan));
  const { devices, link, network, links } = plan.value;
  const next: Plan = { title: f.name, graph: { file: f.id } };
  if (devices?.length) Object.assign(next, { devices, link, network, links });
  else Object.assign(next, { devices: [{ type: "GPU" }, { type: "GPU" }] });
  return showPlan(JSON.parse(JSON.stringify(next)));
}

// A plan that was dropped. Its graph.file is a path on the sender's machine; a file of that name that is already open
// replaces it.
function localPlan(text: string): Plan {
  let p: Plan;
  try {
    p = JSON.parse(text);
  } catch (e) {
    throw new Error(`it is not JSON (${messageOf(e)})`);
  }
  if (typeof p !== "object" || p === null || Array.isArray(p)) throw new Error("a plan is a JSON object");
  const path = p.graph?.file;
  if (typeof path === "string") {
    const name = path.split("/").pop()!;
    const known = files.value.find((f) => f.id === path || f.name === path || f.name === name);
    if (!known) throw new Error(`it needs the graph '${path}'; open that file first`);
    p.graph!.file = known.id;
  }
  return p;
}

async function take(file: File, name = file.name): Promise<void> {
  uploading.value = name;
  try {
    if (isPlan(file.name)) {
      await showPlan(localPlan(await file.text()));
    } else {
      const known = await api.upload(file.name, file);
      if (name !== file.name && !known.plan) known.name = name;
      files.value = [...files.value.filter((f) => f.id !== known.id), known];
      await openFile(known);
    }
  } catch (e) {
    notice.value = `${name} cannot be opened: ${messageOf(e)}`;
  } finally {
    uploading.value = null;
  }
}

const asFile = (entry: FileSystemFileEntry) => new Promise<File>((ok, bad) => entry.file(ok, bad));

// Of a folder only saved_model.pb is uploaded: the simulator needs the graph, not the values of variables.
async function takeEntry(entry: FileSystemEntry): Promise<void> {
  if (entry.isFile) return take(await asFile(entry as FileSystemFileEntry));
  const inside = (name: string) =>
    new Promise<FileSystemEntry | null>((ok) =>
      (entry as FileSystemDirectoryEntry).getFile(name, {}, ok, () => ok(null)));
  const found = await inside("saved_model.pb");
  if (!found) throw new Error(`The folder ${entry.name} has no saved_model.pb, so it is not a SavedModel`);
  return take(await asFile(found as FileSystemFileEntry), entry.name);
}

// Graphs come before plans, because a plan may need a graph that is dropped with it.
const isPlan = (name: string) => Number(/\.json$/i.test(name));
const plansLast = (a: { name: string }, b: { name: string }) => isPlan(a.name) - isPlan(b.name);

async function takeDrop(data: DataTransfer): Promise<void> {
  // Entries and files are only there until the event ends, so they are collected before the first await.
  const entries = [...data.items].flatMap((i) => (i.kind === "file" ? (i.webkitGetAsEntry?.() ?? []) : []));
  const dropped = [...data.files];
  try {
    if (entries.length) for (const e of entries.sort(plansLast)) await takeEntry(e);
    else for (const f of dropped.sort(plansLast)) await take(f);
  } catch (e) {
    notice.value = messageOf(e);
  }
}

export function FileButton() {
  return (
    <label class="button drop-button">
      {uploading.value ? "Opening …" : "Open file"}
      <input type="file" data-test="drop" aria-label="Open a GraphDef, a SavedModel or a plan"
        title="A GraphDef (.pb, .pbtxt, .meta), saved_model.pb or a plan (.json)"
        accept=".pb,.pbtxt,.meta,.json" multiple
        onChange={async (e) => {
          const input = e.currentTarget;
          const chosen = [...(input.files ?? [])].sort(plansLast);
          input.value = ""; // so that the same file can be chosen again
          for (const f of chosen) await take(f);
        }} />
    </label>
  );
}

// The window takes drops everywhere; while something is dragged over it, a text says what it takes.
export function DropOverlay() {
  useEffect(() => {
    const hasFiles = (e: DragEvent) => e.dataTransfer?.types.includes("Files") ?? false;
    const over = (e: DragEvent) => {
      if (!hasFiles(e)) return;
      e.preventDefault();
      dragging.value = true;
    };
    const leave = (e: DragEvent) => {
      // Leaving an element for another one of the page has a related target; leaving the window has none.
      if (e.relatedTarget === null) dragging.value = false;
    };
    const drop = (e: DragEvent) => {
      dragging.value = false;
      if (!e.dataTransfer || !hasFiles(e)) return;
      e.preventDefault();
      void takeDrop(e.dataTransfer);
    };
    addEventListener("dragenter", over);
    addEventListener("dragover", over);
    addEventListener("dragleave", leave);
    addEventListener("drop", drop);
    return () => {
      removeEventListener("dragenter", over);
      removeEventListener("dragover", over);
      removeEventListener("dragleave", leave);
      removeEventListener("drop", drop);
    };
  }, []);
  if (!dragging.value) return null;
  return (
    <div class="drop-overlay" data-test="drop-overlay">
      <strong>Drop it here</strong>
      <span>a GraphDef (.pb, .pbtxt, .meta), a SavedModel folder or a plan (.json)</span>
    </div>
  );
}
