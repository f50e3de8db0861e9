// Plays the step: moves the playhead (`time` of state.ts) through the result.
import { computed, effect, signal } from "@preact/signals";
import { playing, result, time } from "./state";
import type { NodeResult, Transfer } from "./types";
import { knownAs } from "./scopes";

const WALL_S = 10; // at speed 1, a step lasts so long
export const SPEEDS = [0.25, 0.5, 1, 2, 4];
export const speed = signal(1);

export interface Span {
  start_s: number;
  end_s: number;
  node: number; // number in the result; for a transfer, of the node that produces the tensor, or -1
  transfer: Transfer | null;
  name: string; // of the node or tensor
  label: string; // what people call it
}

export interface Row {
  name: string;
  device: string | null; // null: a link
  spans: Span[]; // by start
  busy_s: number;
}

// A tensor is named after its node: "x:0".
function tensorLabel(t: Transfer, source: NodeResult | undefined): string {
  if (source?.label === undefined || !t.tensor.startsWith(source.name)) return t.tensor;
  return source.label + t.tensor.slice(source.name.length);
}

// One row for each device and each link in use, in the order of the devices.
export const rows = computed<Row[]>(() => {
  const r = result.value;
  if (!r) return [];
  const byName = new Map<string, Row>();
  const order = new Map(r.devices.map((d, i) => [d.name, i]));
  for (const d of r.devices) byName.set(d.name, { name: d.name, device: d.name, spans: [], busy_s: d.busy_s });
  r.nodes.forEach((n: NodeResult, i) => {
    const span = { start_s: n.start_s, end_s: n.end_s, node: i, transfer: null, name: n.name, label: knownAs(n) };
    byName.get(n.device)?.spans.push(span);
  });
  const links = new Map<string, Row & { from: string; to: string }>();
  for (const t of r.transfers) {
    const name = `${t.from} → ${t.to}`;
    let row = links.get(name);
    if (!row) links.set(name, (row = { name, device: null, spans: [], busy_s: 0, from: t.from, to: t.to }));
    const span = { start_s: t.start_s, end_s: t.arrival_s, node: t.source ?? -1, transfer: t, name: t.tensor };
    row.spans.push({ ...span, label: tensorLabel(t, r.nodes[t.source]) });
  }
  const at = (name: string) => order.get(name) ?? 0;
  const sorted = [...links.values()].sort((a, b) => at(a.from) - at(b.from) || at(a.to) - at(b.to));
  const all: Row[] = [...byName.values(), ...sorted];
  for (const row of all) row.spans.sort((a, b) => a.start_s - b.start_s || a.end_s - b.end_s);
  for (const row of sorted) {
    // Tensors on a link overlap: the next one is sent while the last one still has its latency before it.
    let end = 0;
    for (const s of row.spans) {
      row.busy_s += Math.max(0, s.end_s - Math.max(end, s.start_s));
      end = Math.max(end, s.end_s);
    }
  }
  return all;
});

const MOST_LINKS = 100; // that the timeline draws: 64 devices can have thousands, and a canvas has a limit

// The rows to draw: all devices, and the busiest links if there are too many.
export const drawnRows = computed<Row[]>(() => {
  const links = rows.value.filter((r) => r.device === null);
  if (links.length <= MOST_LINKS) return rows.value;
  const least = links.map((r) => r.busy_s).sort((a, b) => b - a)[MOST_LINKS - 1];
  const devices = rows.value.length - links.length;
  return rows.value.filter((r) => r.device !== null || r.busy_s >= least).slice(0, devices + MOST_LINKS);
});

// All starts and ends, for stepping.
const events = computed<number[]>(() => {
  const r = result.value;
  if (!r) return [];
  const all = new Set<number>([0, r.step_s]);
  for (const n of r.nodes) all.add(n.start_s).add(n.end_s);
  for (const t of r.transfers) all.add(t.start_s).add(t.arrival_s);
  return [...all].sort((a, b) => a - b);
});

// The number of elements of a sorted list that are at most x.
function countUpTo(list: number[], x: number): number {
  let low = 0,
    high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle] <= x) low = middle + 1;
    else high = middle;
  }
  return low;
}

// The last span of a row that starts at or before t: its index, or -1.
export function lastStarted(spans: Span[], t: number): number {
  let low = 0,
    high = spans.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (spans[middle].start_s <= t) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

// The spans of a row that are under way at time t. A device runs one node at a time; on a link several tensors may be
// on their way, but not more than a few, so looking back a little is enough.
export function under(row: Row, t: number): Span[] {
  const found: Span[] = [];
  const last = lastStarted(row.spans, t);
  for (let i = last, passed = 0; i >= 0 && passed < 32; i--) {
    if (row.spans[i].end_s > t) found.push(row.spans[i]);
    else passed++;
    if (row.device !== null && found.length > 0) break;
  }
  return found;
}

// What runs at time t, in words.
export function describe(t: number): string {
  const r = result.value;
  if (!r) return "";
  const parts: string[] = [];
  const many = r.devices.length > 4; // then those that are idle are only counted
  let transfers = 0;
  let idle = 0;
  for (const row of rows.value) {
    const now = under(row, t);
    if (row.device === null) transfers += now.length;
    else if (now.length > 0) parts.push(`${row.name}: ${now[0].label}`);
    else if (many) idle++;
    else parts.push(`${row.name} idle`);
  }
  if (idle > 0) parts.push(`${idle} ${idle === 1 ? "device" : "devices"} idle`);
  if (transfers > 0) parts.push(`${transfers} ${transfers === 1 ? "transfer" : "transfers"}`);
  return parts.join("; ");
}

const calm = typeof matchMedia === "function" ? matchMedia("(prefers-reduced-motion: reduce)") : null;
let frame = 0;
let timer: ReturnType<typeof setTimeout> | undefined;
let previous = 0;

function tick(now: number) {
  const r = result.value;
  if (!playing.value || !r) return;
  // A tab that was in the background must not jump to the end.
  const passed = Math.min(0.1, (now - previous) / 1000);
  previous = now;
  seek(time.value + (passed * speed.value * r.step_s) / WALL_S);
  if (time.value >= r.step_s) playing.value = false;
  else frame = requestAnimationFrame(tick);
}

// Without motion: twice a second to another event, at most fifty jumps for a step.
function jump() {
  const r = result.value;
  if (!playing.value || !r) return;
  const list = events.value;
  const after = countUpTo(list, time.value + r.step_s / 50);
  seek(list[Math.min(after, list.length - 1)]);
  if (time.value >= r.step_s) playing.value = false;
  else timer = setTimeout(jump, 500 / speed.value);
}

// The clock follows `playing`, whichever view sets it.
effect(() => {
  const on = playing.value;
  cancelAnimationFrame(frame);
  clearTimeout(timer);
  if (!on) return;
  if (calm?.matches) timer = setTimeout(jump, 0);
  else {
    previous = performance.now();
    frame = requestAnimationFrame(tick);
  }
});

export function seek(t: number): void {
  time.value = Math.max(0, Math.min(t, result.value?.step_s ?? 0));
}

export function playPause(): void {
  const r = result.value;
  if (!r) return;
  if (!playing.value && time.value >= r.step_s) time.value = 0;
  playing.value = !playing.value;
}

export function stepForward(): void {
  playing.value = false;
  const list = events.value;
  if (list.length > 0) seek(list[Math.min(countUpTo(list, time.value), list.length - 1)]);
}

export function stepBack(): void {
  playing.value = false;
  const list = events.value;
  let i = countUpTo(list, time.value) - 1;
  if (i >= 0 && list[i] >= time.value) i--;
  seek(list[Math.max(0, i)] ?? 0);
}
