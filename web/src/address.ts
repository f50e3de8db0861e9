// The state of the page in the fragment of its address, so that a link shows what its sender saw.
//
// The fragment is "j" and JSON, or "z" and deflated JSON, whichever is shorter; both are base64url. A change of the
// plan, the tab or the story makes a new entry in the browser's history; looking around (selection, scopes, playhead)
// only rewrites the current one.
import { batch, effect } from "@preact/signals";
import { expanded, notice, plan, playing, selected, setPlan, story, tab, time } from "./state";
import {
  isSlow, kept, playhead as trainingTime, playing as trainingPlays, restoreKept, slowFactor, USUAL_SLOW,
} from "./training-state";
import type { Plan } from "./types";

interface Saved {
  p: Plan;
  t?: "training";
  s?: number; // story
  n?: string; // selected node or scope
  e?: string[]; // expanded scopes
  m?: number; // playhead of the step
  r?: number; // playhead of the training
  k?: Plan; // kept for comparison
  f?: number; // factor of the button Slow
}

const WRITE_AFTER_MS = 200; // keys that are pressed quickly make one entry

let written = ""; // the fragment that shows the current state
let entry = ""; // what made the current entry of the history
let timer: ReturnType<typeof setTimeout> | undefined;
let writing: Promise<void> = Promise.resolve();

async function through(stream: TransformStream, bytes: Uint8Array): Promise<Uint8Array> {
  const out = new Blob([bytes as BlobPart]).stream().pipeThrough(stream);
  return new Uint8Array(await new Response(out).arrayBuffer());
}

function toBase64(bytes: Uint8Array): string {
  let s = "";
  for (const b of bytes) s += String.fromCharCode(b);
  return btoa(s).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

function fromBase64(text: string): Uint8Array {
  return Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
}

export async function encodeState(saved: Saved): Promise<string> {
  const bytes = new TextEncoder().encode(JSON.stringify(saved));
  const plain = `j${toBase64(bytes)}`;
  if (typeof CompressionStream === "undefined") return plain;
  const small = `z${toBase64(await through(new CompressionStream("deflate-raw"), bytes))}`;
  return small.length < plain.length ? small : plain;
}

// Whatever else is wrong with a plan, the simulator says better.
const isObject = (x: unknown) => typeof x === "object" && x !== null && !Array.isArray(x);

export async function decodeState(fragment: string): Promise<Saved> {
  const bytes = fromBase64(fragment.slice(1));
  let json = bytes;
  if (fragment[0] === "z") json = await through(new DecompressionStream("deflate-raw"), bytes);
  else if (fragment[0] !== "j") throw new Error("unknown encoding");
  const saved = JSON.parse(new TextDecoder().decode(json)) as Saved;
  if (!isObject(saved?.p)) throw new Error("no plan");
  return saved;
}

function currentState(): Saved {
  const saved: Saved = { p: plan.value };
  if (tab.value === "training") saved.t = "training";
  if (story.value !== null) saved.s = story.value;
  if (selected.value !== null) saved.n = selected.value;
  if (expanded.value.size) saved.e = [...expanded.value];
  if (kept.value) saved.k = kept.value.plan;
  if (slowFactor.value !== USUAL_SLOW) saved.f = slowFactor.value;
  // Asked in this order, the effect below does not depend on the playhead while it moves.
  if (!playing.value && time.value > 0) saved.m = time.value;
  if (!trainingPlays.value && trainingTime.value !== null) saved.r = trainingTime.value;
  return saved;
}

function show(saved: Saved): void {
  batch(() => {
    tab.value = saved.t === "training" ? "training" : "step";
    story.value = Number.isInteger(saved.s) && saved.s! >= 1 && saved.s! <= 6 ? saved.s! : null;
    selected.value = typeof saved.n === "string" ? saved.n : null;
    expanded.value = new Set(Array.isArray(saved.e) ? saved.e.filter((x) => typeof x === "string") : []);
    playing.value = false;
    // The playhead is set before the plan: a result that is too short for it moves it back to 0.
    time.value = typeof saved.m === "number" && saved.m >= 0 ? saved.m : 0;
    trainingPlays.value = null;
    trainingTime.value = typeof saved.r === "number" && saved.r >= 0 ? saved.r : null;
    slowFactor.value = typeof saved.f === "number" && isSlow(saved.f) ? saved.f : USUAL_SLOW;
    void restoreKept(isObject(saved.k) ? saved.k! : null);
    void setPlan(saved.p);
  });
}

const entryOf = (saved: Saved) => JSON.stringify([saved.p, saved.t, saved.s]);

async function write(): Promise<void> {
  const saved = currentState();
  const makes = entryOf(saved);
  const fragment = await encodeState(saved);
  if (fragment === written) return;
  const url = `${location.pathname}${location.search}#${fragment}`;
  if (makes === entry || !entry) history.replaceState(null, "", url);
  else history.pushState(null, "", url);
  written = fragment;
  entry = makes;
}

// Writes the state into the address now, and returns the address.
export async function currentAddress(): Promise<string> {
  clearTimeout(timer);
  writing = writing.then(write);
  await writing;
  return location.href;
}

// Shows the state of the address. False: the address has none, or one that cannot be read (then `notice` says so).
export async function openAddress(): Promise<boolean> {
  const fragment = location.hash.slice(1);
  if (!fragment) return false;
  try {
    const saved = await decodeState(fragment);
    show(saved);
    // What is shown may differ from what was saved (devices get names); that must not make a new entry.
    written = fragment;
    entry = entryOf(currentState());
    return true;
  } catch {
    notice.value = "The link is damaged: its part after # cannot be read. The first story is shown instead.";
    return false;
  }
}

// From now on the address follows the state, and the state follows back and forward.
export function followAddress(fallback: () => void): void {
  addEventListener("popstate", () => {
    clearTimeout(timer);
    if (location.hash.slice(1) === written) return;
    void openAddress().then((ok) => ok || fallback());
  });
  // A slider that is dragged slowly is still one change.
  let pressed = false;
  const writeSoon = () => {
    clearTimeout(timer);
    timer = setTimeout(() => pressed || void (writing = writing.then(write)), WRITE_AFTER_MS);
  };
  addEventListener("pointerdown", () => (pressed = true));
  for (const released of ["pointerup", "pointercancel", "blur"])
    addEventListener(released, () => {
      if (pressed) writeSoon();
      pressed = false;
    });
  effect(() => {
    void currentState(); // reading it here makes the effect run when any of it changes
    writeSoon();
  });
}
