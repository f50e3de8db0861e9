// The state of the page. Views read these signals and change them only through the functions below, so that every
// change of the plan is simulated again and is written into the address.
import { batch, computed, signal } from "@preact/signals";
import { api, ApiError } from "./api";
import type { BoardFile, Model, Plan, Result } from "./types";

export const plan = signal<Plan>({});
export const result = signal<Result | null>(null); // of the newest plan that was simulated
export const busy = signal(false); // a simulation is under way
export const error = signal<string | null>(null); // of the newest plan
export const unreachable = signal(false); // the server did not answer the last request
export const notice = signal<string | null>(null); // another error, such as a file that cannot be read
export const models = signal<Model[]>([]);
export const files = signal<BoardFile[]>([]);

export const time = signal(0); // of the playhead, in seconds of the step
export const playing = signal(false);
export const selected = signal<string | null>(null); // name of a node, or of a scope with a final slash
export const expanded = signal<ReadonlySet<string>>(new Set()); // scopes, each with a final slash
export const tab = signal<"step" | "training">("step");
export const story = signal<number | null>(null); // 1 to 6
export const opened = signal(0); // how often a story was opened: each one begins with the usual view of the graph
export const resultOpened = signal(0); // the value of `opened` when the plan of the result was sent

// The device of each position of the playhead is computed from the result, so views agree on it.
export const deviceNames = computed(() => result.value?.devices.map((d) => d.name) ?? []);

// The colour of a device: the same in the graph, the cards and the timeline. Styles define --device-0 to --device-7.
export function deviceColor(name: string): string {
  let i = deviceNames.value.indexOf(name);
  // A device that was just added is not in the result yet.
  if (i < 0) i = plan.value.devices?.findIndex((d) => d.name === name) ?? 0;
  return `var(--device-${(i < 0 ? 0 : i) % 8})`;
}

export function messageOf(e: unknown): string {
  return e instanceof Error ? e.message : String(e);
}

let request: AbortController | null = null; // of the simulation under way
let requested: Plan = {}; // its plan
let running: Promise<void> | null = null; // until no simulation is under way

// Replaces the plan and simulates it; the promise resolves when the newest plan has been simulated.
//
// Only one simulation is under way at a time. While it runs, only the newest plan is remembered, and is sent when the
// answer has arrived. So a slider that is dragged shows as many positions as the simulator can answer. A simulation
// of another graph is given up at once, because a large one may take seconds and nobody wants to see it any more.
export function setPlan(next: Plan): Promise<void> {
  plan.value = withDeviceNames(next);
  if (running && JSON.stringify(plan.value.graph) !== JSON.stringify(requested.graph)) request?.abort();
  running ??= simulateNewest().finally(() => (running = null));
  return running;
}

async function simulateNewest(): Promise<void> {
  busy.value = true;
  do {
    request = new AbortController();
    requested = plan.value;
    const wasOpened = opened.value;
    try {
      const r = await api.simulate(requested, request.signal);
      batch(() => {
        result.value = r;
        resultOpened.value = wasOpened;
        error.value = null;
        unreachable.value = false;
        if (time.value > r.step_s) time.value = 0;
      });
    } catch (e) {
      if ((e as Error).name === "AbortError") continue;
      error.value = messageOf(e);
      unreachable.value = e instanceof ApiError && e.code === "UNAVAILABLE";
    }
  } while (plan.value !== requested);
  busy.value = false;
}

// Changes a copy of the plan: change((p) => { p.devices![0].speedup = 2; }).
export function change(edit: (p: Plan) => void): Promise<void> {
  const next = structuredClone(plan.value);
  edit(next);
  return setPlan(next);
}

// Gives every device the name that the simulator would give it, so that names stay when a device is removed, and
// links and pins can name it.
function withDeviceNames(p: Plan): Plan {
  if (p.devices?.length && p.devices.every((d) => d.name)) return p;
  const devices = structuredClone(p.devices?.length ? p.devices : [{}]);
  const numbers = { CPU: 0, GPU: 0 };
  for (const d of devices) {
    d.type ??= "CPU";
    const number = numbers[d.type]++;
    d.name ??= `${d.type.toLowerCase()}${number}`;
  }
  return { ...p, devices };
}

// ---- size ----

// True where everything is one column (board.css has the same condition).
const oneColumn = matchMedia("(max-width: 820px), (max-height: 560px)");
export const narrow = signal(oneColumn.matches);

oneColumn.addEventListener("change", () => (narrow.value = oneColumn.matches));

// ---- theme ----

const prefersDark = matchMedia("(prefers-color-scheme: dark)");

function chosenTheme(): "light" | "dark" | null {
  try {
    const t = localStorage.getItem("theme");
    return t === "light" || t === "dark" ? t : null;
  } catch {
    return null; // storage may be forbidden
  }
}

export const theme = signal<"light" | "dark">(chosenTheme() ?? (prefersDark.matches ? "dark" : "light"));

prefersDark.addEventListener("change", () => {
  if (!chosenTheme()) theme.value = prefersDark.matches ? "dark" : "light";
});

theme.subscribe((t) => (document.documentElement.dataset.theme = t));

export function toggleTheme(): void {
  theme.value = theme.value === "dark" ? "light" : "dark";
  try {
    localStorage.setItem("theme", theme.value);
  } catch {
    // The choice holds until the page is closed.
  }
}
