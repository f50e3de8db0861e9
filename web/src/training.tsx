// The tab "Training": a cluster of workers and parameter servers as a picture, the controls that change it, what it did
// over time, its figures, and charts of its speed.
import { useEffect } from "preact/hooks";
import { SweepChart, useSweep } from "./charts";
import {
  type Finding, backupOf, capital, exampleWord, findings, inStep, modeOf, number, slowIndex, slowTask,
} from "./findings";
import { busy, error, plan, result } from "./state";
import { Controls } from "./training-controls";
import { Figures } from "./training-figures";
import { FirstSteps, WholeTraining } from "./training-lanes";
import { ClusterPicture } from "./training-picture";
import { edit, training, usePlayer } from "./training-state";
import "./training.css";
import type { Cluster } from "./types";
import { Button } from "./widgets";

// ---- findings ----

const toneMarks: Record<Finding["tone"], string> = { wait: "!", down: "!", save: "i", info: "i", good: "✓" };

function Findings() {
  const list = findings(training.value, plan.value.cluster);
  return (
    <ul class="training-findings" data-test="training-findings" aria-live="polite">
      {list.map((f, i) => (
        <li key={i} class={`training-finding training-tone-${f.tone}`}>
          <span class="training-finding-mark" aria-hidden="true">
            {toneMarks[f.tone]}
          </span>
          <span>{f.text}</span>
        </li>
      ))}
    </ul>
  );
}

// ---- charts ----

// A power of two, so that moving the slider a little does not ask for another sweep.
const sweepEnd = (workers: number) => Math.min(10000, Math.max(64, 2 ** Math.ceil(Math.log2(workers * 1.5))));

function WorkerCharts() {
  const c = plan.value.cluster;
  const t = training.value;
  const word = exampleWord(plan.value.graph?.model);
  const swept = useSweep("workers", 1, sweepEnd(c?.workers ?? 1));
  const at = t?.workers ?? c?.workers ?? 1;
  const of = modeOf(c) === "backup" ? "needed workers" : "workers";
  const joins = (from: number, to: number) => joining(c, from + backupOf(c), to + backupOf(c));
  return (
    <section class="training-panel" aria-label="Speed against the number of workers">
      <div class="training-head">
        <h2>How many workers are useful?</h2>
      </div>
      <SweepChart
        title={`${word.many[0].toUpperCase()}${word.many.slice(1)}/s`}
        test="chart-examples"
        swept={swept}
        member="examples_per_s"
        of={of}
        joins={joins}
        unit={`${word.many}/s`}
        log
        current={{ x: at, y: t?.examples_per_s ?? null }}
      />
      <SweepChart
        title={inStep(modeOf(c)) ? "Steps/s" : "Steps/s of all workers, added up"}
        test="chart-steps"
        swept={swept}
        member="steps_per_s"
        of={of}
        joins={joins}
        unit="steps/s"
        log
        current={{ x: at, y: t?.steps_per_s ?? null }}
      />
    </section>
  );
}

// Why more machines may be slower: a slow worker is among them.
function joining(c: Cluster | undefined, from: number, to: number): string {
  const slow = (c?.slow ?? []).find(
    (s) => slowTask(s) === "worker" && (s.factor ?? 2) > 1 && slowIndex(s) >= from && slowIndex(s) < to,
  );
  return slow ? `: worker ${slowIndex(slow)}, which is ${number(slow.factor ?? 2)}× slower, is among them` : "";
}

// In the mode with backup workers, their number is what the reader wants to choose, so this chart comes first.
function BackupChart() {
  const c = plan.value.cluster;
  const t = training.value;
  const n = backupOf(c);
  const word = exampleWord(plan.value.graph?.model);
  const swept = useSweep("backup", 0, Math.max(8, 2 * n));
  const needed = c?.workers ?? 1;
  return (
    <section class="training-panel" aria-label="Speed against the number of backup workers">
      <div class="training-head">
        <h2>How many backup workers are useful?</h2>
      </div>
      <SweepChart
        title={`${capital(word.many)}/s`}
        test="chart-backup"
        swept={swept}
        member="examples_per_s"
        of="backup workers"
        joins={(from, to) => joining(c, from + needed, to + needed)}
        unit={`${word.many}/s`}
        log={false}
        current={{ x: n, y: t?.examples_per_s ?? null }}
      />
    </section>
  );
}

// ---- the view ----

export function TrainingView() {
  usePlayer();
  // A plan without a cluster gets one here: an empty tab would explain nothing.
  const missing = result.value !== null && plan.value.graph !== undefined && !plan.value.cluster;
  useEffect(() => {
    if (missing) edit(() => undefined);
  }, [missing]);
  const t = training.value;
  if (!t)
    return (
      <div class="training training-empty">
        <p>
          {error.value
            ? "There is no training to show."
            : busy.value || missing
              ? "Simulating the training …"
              : "This plan has no cluster."}
        </p>
        {!busy.value && !missing && !plan.value.cluster && (
          <Button test="add-cluster" kind="primary" onClick={() => edit(() => undefined)}>
            Add a cluster
          </Button>
        )}
        {error.value && plan.value.cluster && <Controls />}
      </div>
    );
  const failed = t.losses?.length > 0; // then the whole training matters more than its first steps
  return (
    <div class={`training ${failed ? "training-failed" : ""}`}>
      <div class="training-columns">
        <Controls />
        <div class={`training-middle ${error.value ? "stale" : ""}`}>
          <Findings />
          {failed && <WholeTraining />}
          <ClusterPicture />
          <FirstSteps />
          {!failed && <WholeTraining />}
        </div>
        <div class={`training-right ${error.value ? "stale" : ""}`}>
          {modeOf(plan.value.cluster) === "backup" && <BackupChart />}
          <Figures />
          <WorkerCharts />
        </div>
      </div>
    </div>
  );
}
