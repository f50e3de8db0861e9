// Six presets that explain the simulator in order. Each text has exactly two sentences.
import { batch } from "@preact/signals";
import { expanded, opened, playing, plan, selected, setPlan, story, tab, time } from "./state";
import { hint as trainingHint, playhead as trainingTime } from "./training-state";
import type { Device, Plan } from "./types";

export interface Variant {
  label: string;
  plan: Plan;
}

export interface Story {
  title: string;
  text: string;
  tab: "step" | "training";
  plan: Plan;
  variants?: Variant[]; // the first one is `plan`
  selected?: string;
  expanded?: string[];
}

const graph = () => ({ model: "inception", batch: 32 });
const gpu = (number: number, more: Partial<Device> = {}): Device => ({ name: `gpu${number}`, type: "GPU", ...more });
const link = () => ({ latency_us: 10, bytes_per_s: 5e10 });

// A fast network: transfers would hide what these stories are about.
const network = { ps_bytes_per_s: 1e10, worker_bytes_per_s: 1e10, ps_message_us: 5 };
const fiveWorkers = { ps: 2, steps: 60, slow: [{ worker: 3, factor: 5 }], ...network };

const crash = (checkpoint_s: number): Plan => ({
  title: checkpoint_s ? "A crash with checkpoints" : "A crash without checkpoints",
  graph: { model: "inception", batch: 32, blocks: 2 },
  devices: [gpu(0)],
  cluster: {
    workers: 4, ps: 2, mode: "sync", steps: 400, checkpoint_s, save_s: 0.1, restore_s: 0.3, restart_s: 1,
    crashes: [{ task: "ps", index: 0, at_s: 10 }], ...network,
  },
});

export const stories: Story[] = [
  {
    title: "One device",
    text: "In this simulation, one device runs the nodes of the network one after the other, so a step takes as " +
      "long as all of them together. Press play, or make the device faster with the slider Speed.",
    tab: "step",
    plan: { title: "One device", graph: graph(), devices: [gpu(0)], link: link() },
    expanded: ["block1/"],
  },
  {
    title: "Two devices",
    text: "Branches that do not need each other run at the same time on two devices, but tensors that cross between " +
      "them (red) take time. That is why two devices are less than twice as fast as one.",
    tab: "step",
    plan: { title: "Two devices", graph: graph(), devices: [gpu(0), gpu(1)], link: link() },
    selected: "block1/c_3x3_2/Conv2D",
    expanded: ["block1/"],
  },
  {
    title: "A slow device",
    text: "Device gpu1 is now ten times slower than gpu0, so the placer, which chooses a device for each node, gives " +
      "it only work that nobody has to wait for. Move gpu1's slider Speed and watch nodes change their device.",
    tab: "step",
    plan: { title: "A slow device", graph: graph(), devices: [gpu(0), gpu(1, { speedup: 0.1 })], link: link() },
    selected: "block1/b_3x3/Conv2D",
    expanded: ["block1/"],
  },
  {
    title: "A straggler",
    text: "Five workers train on parameters that two parameter servers keep, and each step ends only when the gradients " +
      "of all five have arrived there. " +
      "Worker 3 is five times slower (a straggler), so the other four mostly wait for it.",
    tab: "training",
    plan: {
      title: "Five workers, one of them a straggler", graph: graph(), devices: [gpu(0)],
      cluster: { workers: 5, mode: "sync", ...fiveWorkers },
    },
  },
  {
    title: "A backup worker",
    text: "Four workers and one backup are the same five machines, but now each step ends with the first four " +
      "gradients and does not wait for the fifth. The straggler's gradients come too late and are dropped, but nobody " +
      "waits for it any more.",
    tab: "training",
    plan: {
      title: "Four workers and one backup, one of the five a straggler", graph: graph(), devices: [gpu(0)],
      cluster: { workers: 4, mode: "backup", backup: 1, ...fiveWorkers },
    },
  },
  {
    title: "A crash",
    text: "After 10 s a parameter server crashes and its parameters are gone, so without checkpoints the training " +
      "starts again from the first step. With a checkpoint every 2 s, only the steps since the last one are lost.",
    tab: "training",
    plan: crash(0),
    variants: [
      { label: "No checkpoints", plan: crash(0) },
      { label: "With checkpoints", plan: crash(2) },
    ],
  },
];

// Shows story `number` (1 to 6), or one of its variants, from its beginning.
export function openStory(number: number, variant = 0): Promise<void> {
  const s = stories[number - 1];
  if (story.value !== number) {
    scrollTo({ top: 0, behavior: "instant" });
    document.getElementById("main")?.scrollTo({ top: 0, behavior: "instant" });
  }
  return batch(() => {
    story.value = number;
    tab.value = s.tab;
    selected.value = s.selected ?? null;
    expanded.value = new Set(s.expanded ?? []);
    time.value = 0;
    playing.value = false;
    trainingTime.value = null;
    trainingHint.value = null;
    opened.value++;
    return setPlan(structuredClone(s.variants?.[variant].plan ?? s.plan));
  });
}

// The variant of a story that the current plan is, or -1 if the plan was changed. A look at the tab "Training" adds a
// cluster to the plan, which changes nothing that a story about the step shows.
export function currentVariant(number: number): number {
  const s = stories[number - 1];
  const now = JSON.stringify(s.tab === "step" ? { ...plan.value, cluster: undefined } : plan.value);
  return (s.variants ?? [{ plan: s.plan }]).findIndex((v) => JSON.stringify(v.plan) === now);
}
