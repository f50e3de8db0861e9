// The numbers of the cluster: tasks, mode, checkpoints, random delays.
import { backupOf, inStep, modeOf, modes, number, percent, plural, seconds } from "./findings";
import { plan } from "./state";
import { edit, total, training } from "./training-state";
import type { Cluster, Mode } from "./types";
import { NumberField, type Quantity, Slider, TextField } from "./widgets";

const time: Quantity = {
  show: (x) => seconds(x),
  parse: (text) => {
    const m = /^(\d+\.?\d*|\.\d+)\s*(s|ms)?$/i.exec(text.trim().replace(",", "."));
    return m ? Number(m[1]) * (m[2]?.toLowerCase() === "ms" ? 1e-3 : 1) : null;
  },
};

// Sets a key, or removes it if the value is the usual one, so that addresses stay short.
function set(key: string, value: number, usualValue?: number): void {
  edit((c) => {
    if (value === usualValue) delete c[key];
    else c[key] = value;
  });
}

const numberOf = (c: Cluster | undefined, key: string, otherwise: number): number => {
  const v = c?.[key];
  return typeof v === "number" ? v : otherwise;
};

function ModeControl() {
  const mode = modeOf(plan.value.cluster);
  return (
    <fieldset class="training-modes" data-test="mode" data-value={mode}>
      <legend>How workers wait for each other</legend>
      <div class="training-segments">
        {modes.map((m) => (
          <label key={m.mode} class={`training-segment ${m.mode === mode ? "training-chosen" : ""}`} title={m.about}>
            <input
              type="radio"
              name="training-mode"
              value={m.mode}
              checked={m.mode === mode}
              data-test={`mode-${m.mode}`}
              onChange={() => chooseMode(m.mode)}
            />
            <span>{m.label}</span>
          </label>
        ))}
      </div>
      <p class="training-note" data-test="mode-about">
        {modes.find((m) => m.mode === mode)?.about}
      </p>
    </fieldset>
  );
}

// Events of parameter servers that all-reduce removed from a plan: they return when that plan leaves all-reduce.
let removed: { of: string; events: Pick<Cluster, "crashes" | "slow" | "cuts"> } | null = null;

const planKey = () => JSON.stringify([plan.value.title, plan.value.graph]);

function serverEvents(c: Cluster): Pick<Cluster, "crashes" | "slow" | "cuts"> {
  return {
    crashes: c.crashes?.filter((x) => x.task === "ps"),
    slow: c.slow?.filter((x) => x.task === "ps"),
    cuts: c.cuts?.filter((x) => x.ps !== undefined),
  };
}

// The number of machines stays: to use backup workers, one of the workers becomes a backup.
function chooseMode(mode: Mode): void {
  edit((c) => {
    const was = modeOf(c);
    if (mode === "allreduce" && was !== "allreduce") removed = { of: planKey(), events: serverEvents(c) };
    if (was === "allreduce" && mode !== "allreduce" && removed?.of === planKey()) {
      c.crashes = [...(c.crashes ?? []), ...(removed.events.crashes ?? [])];
      c.slow = [...(c.slow ?? []), ...(removed.events.slow ?? [])];
      c.cuts = [...(c.cuts ?? []), ...(removed.events.cuts ?? [])];
      removed = null;
    }
    const machines = (c.workers ?? 1) + backupOf(c);
    c.mode = mode;
    if (mode === "backup" && was !== "backup" && machines > 1) {
      c.workers = machines - 1;
      c.backup = 1;
    } else if (mode !== "backup") {
      c.workers = machines;
      delete c.backup; // a sync cluster with spare workers would be a backup cluster
    }
  });
}

function CheckpointControl() {
  const c = plan.value.cluster;
  const every = numberOf(c, "checkpoint_s", 0);
  const toggle = (on: boolean) => {
    const fifth = Math.max(total.value / 5, 0.01);
    const unit = 10 ** Math.floor(Math.log10(fifth));
    set("checkpoint_s", on ? Number((Math.max(1, Math.round(fifth / unit)) * unit).toPrecision(6)) : 0, 0);
  };
  return (
    <div class="training-check">
      <label>
        <input
          type="checkbox"
          data-test="checkpoint-on"
          checked={every > 0}
          onChange={(e) => toggle(e.currentTarget.checked)}
        />
        <span>Checkpoint every</span>
      </label>
      <TextField
        test="checkpoint-s"
        name="Time between checkpoints"
        text={every > 0 ? seconds(every) : "off"}
        accept={(text) => {
          if (/^off$/i.test(text.trim())) return 0;
          const v = time.parse(text);
          return v !== null && (v === 0 || v >= 1e-3) && v <= 1e9 ? v : null;
        }}
        onAccept={(v) => set("checkpoint_s", v, 0)}
      />
    </div>
  );
}

interface SettingProps {
  of: string; // key of the cluster; the name for tests has "-" instead of "_"
  label: string;
  name?: string;
  value?: number; // default: that of the plan
  usual: number; // the simulator's value if the plan has none
  low?: number; // default 0
  high: number;
  most?: number;
}

// A slider for a number of tasks or steps. Its right end moves if the plan has more.
function Count(p: SettingProps) {
  const value = p.value ?? numberOf(plan.value.cluster, p.of, p.usual);
  return (
    <Slider
      label={p.label}
      name={p.name}
      test={p.of}
      value={value}
      low={p.low ?? 0}
      high={Math.max(p.high, value)}
      most={p.most}
      linear
      onChange={(v) => set(p.of, Math.round(v))}
    />
  );
}

// A slider for any other number. The usual value is left out of the plan.
function Amount(p: SettingProps & { step?: number; quantity?: Quantity }) {
  return (
    <Slider
      label={p.label}
      name={p.name}
      test={p.of.replace("_", "-")}
      value={numberOf(plan.value.cluster, p.of, p.usual)}
      low={p.low ?? 0}
      high={p.high}
      most={p.most}
      linear
      step={p.step}
      quantity={p.quantity}
      onChange={(v) => set(p.of, v, p.usual)}
    />
  );
}

const parsed = (text: string, scale: number) => {
  const x = parseFloat(text) * scale;
  return Number.isFinite(x) ? x : null;
};
const milliseconds: Quantity = { show: (x) => `${number(x)} ms`, parse: (s) => parsed(s, 1) };
const share: Quantity = { show: percent, parse: (s) => parsed(s, 0.01) };

export function Controls() {
  const c = plan.value.cluster;
  const mode = modeOf(c);
  const workers = c?.workers ?? 1;
  const steps = numberOf(c, "steps", 0);
  const ofTime = { most: 1e6, quantity: time };
  return (
    <section class="training-controls" aria-label="Cluster">
      <h2>Cluster</h2>
      <Count of="workers" label={mode === "backup" ? "Needed" : "Workers"} name="Workers" usual={1} low={1} high={64} most={10000} />
      <fieldset class="training-plain" disabled={mode === "allreduce"}>
        <Count of="ps" label="Servers" name="Parameter servers" usual={1} low={1} high={16} most={1000} />
      </fieldset>
      <ModeControl />
      {mode === "backup" && (
        <Count of="backup" label="Backup" name="Backup workers" value={backupOf(c)} usual={0} high={8} most={1000} />
      )}
      {mode === "backup" && (
        <p class="training-note" data-test="machines">
          {plural(workers, "gradient")} needed + {backupOf(c)} backup = {plural(workers + backupOf(c), "machine")}.
        </p>
      )}
      {mode === "bounded" && (
        <Count of="delay" label="Delay" name="How many steps a worker may be ahead" usual={4} high={32} most={1e6} />
      )}
      <h2>Failures and checkpoints</h2>
      <CheckpointControl />
      <Amount of="restart_s" label="Restart" name="Time until a killed task runs again" usual={2} high={20} step={0.5}
        {...ofTime} />
      <details class="training-more">
        <summary>More</summary>
        <label class="training-row">
          <span>{inStep(mode) ? "Steps" : "Steps of each worker"}</span>
          <TextField
            test="steps"
            name={inStep(mode) ? "Steps of the training" : "Steps of each worker, on average"}
            text={steps ? String(steps) : `${training.value?.steps ?? 200} (auto)`}
            accept={(text) =>
              /^(auto)?$/i.test(text.trim())
                ? 0
                : /^\d+$/.test(text.trim()) && +text >= 1 && +text <= 1e6
                  ? +text
                  : null
            }
            onAccept={(v) => set("steps", v, 0)}
          />
        </label>
        <Amount of="tail_ms" label="Jitter" name="Mean random delay of a step, in ms" usual={0} high={100} most={1e6}
          quantity={milliseconds} />
        <Amount of="tail_share" label="Share" name="Share of steps with a random delay" usual={1} high={1} step={0.05}
          quantity={share} />
        <Amount of="save_s" label="Save" name="Time to write a checkpoint" usual={0.2} high={5} step={0.1}
          {...ofTime} />
        <Amount of="restore_s" label="Restore" name="Time to restore a checkpoint" usual={0.2} high={5} step={0.1}
          {...ofTime} />
        <p class="training-note">
          Jitter is a random delay of a step (its mean), and Share is the share of steps that have it. Save and Restore
          are the times that a checkpoint takes. The seed chooses the random numbers: the same one gives the same
          training again.
        </p>
        <label class="training-row">
          <span>Seed of random numbers</span>
          <NumberField
            test="seed"
            name="Seed of random numbers"
            value={numberOf(c, "seed", 1)}
            low={0}
            high={9e15}
            onChange={(v) => set("seed", v, 1)}
          />
        </label>
      </details>
    </section>
  );
}
