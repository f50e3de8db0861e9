// The pictures of a training: lanes of tasks over time, the progress curve, and speed against the number of workers.
// Lanes and progress are SVG with the same margins, so that their time axes are aligned; the sweeps are uPlot charts.
import { type ReadonlySignal, signal } from "@preact/signals";
import type { RefObject } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { api } from "./api";
import {
  type Asked, type Bar, kindNames, type Task, number, percent, plural, seconds, shortName, taskName,
} from "./findings";
import { messageOf, plan } from "./state";
import type { Loss, Plan, Sweep, SweepPoint, Training } from "./types";

export const GUTTER = 74; // space for the names of lanes, left of the time axis
const RIGHT = 10;
const LETTER = 6.4; // width of a letter of a label, about

// ---- sizes and colours ----

export function useWidth(ref: RefObject<HTMLElement | null>): number {
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const el = ref.current;
    if (!el) return;
    // A frame later: a change of size within the observer's callback is an error for the browser.
    let frame = 0;
    const observer = new ResizeObserver(() => {
      cancelAnimationFrame(frame);
      frame = requestAnimationFrame(() => setWidth(Math.floor(el.clientWidth)));
    });
    observer.observe(el);
    setWidth(Math.floor(el.clientWidth));
    return () => {
      cancelAnimationFrame(frame);
      observer.disconnect();
    };
  }, []);
  return width;
}

// Counts changes of the theme. Canvas does not follow custom properties by itself.
const themes = signal(0);
new MutationObserver(() => themes.value++).observe(document.documentElement, {
  attributes: true,
  attributeFilter: ["data-theme", "class"],
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => themes.value++);

function cssColor(el: Element, name: string, fallback: string): string {
  return getComputedStyle(el).getPropertyValue(name).trim() || fallback;
}

// Round numbers for the marks of an axis: about `n` of them between 0 and `end`.
export function ticks(end: number, n: number): number[] {
  if (!(end > 0)) return [0];
  const raw = end / Math.max(1, n);
  const base = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((k) => k * base).find((s) => s >= raw) ?? base * 10;
  const out: number[] = [];
  for (let i = 0; i * step <= end * 1.0001; i++) out.push(Number((i * step).toPrecision(12)));
  return out;
}

// All marks have the unit of the last one, so that they can be compared at a glance.
function tickText(v: number, end: number): string {
  if (v === 0) return "0";
  const [factor, unit] = end < 1e-3 ? [1e6, "µs"] : end < 1 ? [1e3, "ms"] : [1, "s"];
  return `${Number((v * factor).toPrecision(6))} ${unit}`;
}

// ---- lanes ----

// Sets the playhead to where the pointer is, while it is held down.
function useScrub(end_s: number, width: number, onMove: (s: number) => void) {
  const set = (e: PointerEvent) => {
    const box = (e.currentTarget as Element).getBoundingClientRect();
    const x = (e.clientX - box.left - GUTTER) / Math.max(1, width - GUTTER - RIGHT);
    onMove(Math.min(1, Math.max(0, x)) * end_s);
  };
  return {
    onPointerDown: (e: PointerEvent) => {
      (e.currentTarget as Element).setPointerCapture(e.pointerId);
      set(e);
    },
    onPointerMove: (e: PointerEvent) => {
      if (e.buttons & 1) set(e);
    },
  };
}

function Cursor(p: { now: ReadonlySignal<number>; end_s: number; width: number; height: number }) {
  const at = p.now.value;
  if (at > p.end_s || !(p.end_s > 0)) return null;
  const x = GUTTER + (at / p.end_s) * (p.width - GUTTER - RIGHT);
  return <line class="training-cursor" x1={x} x2={x} y1={0} y2={p.height} />;
}

function TimeAxis(p: { end_s: number; width: number; y: number; height: number }) {
  const inner = p.width - GUTTER - RIGHT;
  return (
    <g class="training-axis">
      {ticks(p.end_s, inner / 90).map((v) => {
        const x = GUTTER + (v / p.end_s) * inner;
        return (
          <g key={v}>
            <line x1={x} x2={x} y1={0} y2={p.height} />
            <text x={x} y={p.y} text-anchor={v === 0 ? "start" : x > p.width - 30 ? "end" : "middle"}>
              {tickText(v, p.end_s)}
            </text>
          </g>
        );
      })}
    </g>
  );
}

export interface Lane {
  task: Task;
  bars: Bar[];
  drops?: number[]; // times at which its gradients were dropped
  mark?: string; // why this lane is special
  slow?: { start_s: number; end_s: number }[];
}

const cross = (x: number, y: number, r: number) => `M${x - r},${y - r}L${x + r},${y + r}M${x - r},${y + r}L${x + r},${y - r}`;

// One row per task. Rows become thinner if there are many, and then only some have names.
export function LanesChart(p: {
  lanes: Lane[];
  end_s: number;
  now: ReadonlySignal<number>;
  onMove: (s: number) => void;
  label: string;
  test: string;
  events?: Asked[];
}) {
  const ref = useRef<HTMLDivElement>(null);
  const width = useWidth(ref);
  const scrub = useScrub(p.end_s, width, p.onMove);
  const rows = p.lanes.length;
  const row = rows <= 14 ? 17 : Math.max(5, Math.floor(260 / rows));
  const every = row >= 12 ? 1 : Math.ceil(12 / row);
  const marked = p.lanes.flatMap((l, i) => (l.mark ? [i] : []));
  // A marked lane always has its name; names that would overlap it are left out.
  const named = (i: number) => marked.includes(i) || (i % every === 0 && !marked.some((m) => Math.abs(m - i) < every));
  const bottom = rows * row + 2;
  const height = bottom + 18;
  const inner = Math.max(1, width - GUTTER - RIGHT);
  const x = (s: number) => GUTTER + (Math.min(s, p.end_s) / p.end_s) * inner;
  const thick = row > 8 ? row - 4 : row - 1;
  const body = useMemo(() => {
    if (width <= 0 || !(p.end_s > 0)) return null;
    return (
      <>
        <TimeAxis end_s={p.end_s} width={width} y={bottom + 13} height={bottom} />
        {p.lanes.map((lane, i) => {
          const y = i * row + 2;
          return (
            <g key={lane.task.id}>
              {named(i) && (
                <text
                  class={lane.mark ? "training-lane-name training-marked" : "training-lane-name"}
                  x={GUTTER - 8}
                  y={y + thick / 2 + 4}
                  text-anchor="end">
                  {shortName(lane.task)}
                </text>
              )}
              <rect class="training-lane" x={GUTTER} y={y} width={inner} height={thick} />
              {lane.slow?.map((s, k) => (
                <rect
                  key={`s${k}`}
                  class="training-bar-slow"
                  x={x(s.start_s)}
                  y={y}
                  width={Math.max(1, x(s.end_s) - x(s.start_s))}
                  height={thick}
                />
              ))}
              {lane.bars
                .filter((b) => b.start_s < p.end_s)
                .map((b, k) => (
                  <rect
                    key={k}
                    class={`training-bar training-bar-${b.kind}`}
                    x={x(b.start_s)}
                    y={y}
                    width={Math.max(b.kind === "save" || b.kind === "restore" ? 2 : 0.6, x(b.end_s) - x(b.start_s))}
                    height={thick}>
                    <title>
                      {`${taskName(lane.task)}: ${kindNames[b.kind]} from ${seconds(b.start_s)} to ${seconds(b.end_s)}`}
                    </title>
                  </rect>
                ))}
              {lane.drops
                ?.filter((s) => s <= p.end_s)
                .map((s) => (
                  <path key={`d${s}`} class="training-dropped" d={cross(x(s), y + thick / 2, Math.min(5, thick / 2))}>
                    <title>{`${taskName(lane.task)}: its gradient was dropped at ${seconds(s)}`}</title>
                  </path>
                ))}
            </g>
          );
        })}
        {p.events
          ?.filter((a) => a.start_s <= p.end_s)
          .map((a) => (
            <line
              key={`${a.list}${a.at}`}
              class={`training-event training-event-${a.list}`}
              x1={x(a.start_s)}
              x2={x(a.start_s)}
              y1={0}
              y2={bottom}
            />
          ))}
      </>
    );
  }, [p.lanes, p.end_s, p.events, width]);
  return (
    <div class="training-lanes" ref={ref} data-test={p.test} role="img" aria-label={p.label}>
      {width > 0 && (
        <svg width={width} height={height} {...scrub}>
          <defs>
            <pattern
              id="training-hatch"
              width="5"
              height="5"
              patternUnits="userSpaceOnUse"
              patternTransform="rotate(45)">
              <rect class="training-hatch-back" width="5" height="5" />
              <line class="training-hatch-line" x1="0" y1="0" x2="0" y2="5" />
            </pattern>
          </defs>
          {body}
          <Cursor now={p.now} end_s={p.end_s} width={width} height={bottom} />
        </svg>
      )}
    </div>
  );
}

// ---- progress ----

function lossLabel(l: Loss): string {
  if (l.lost_steps <= 0) return "";
  const source =
    l.checkpoint_at_s === null
      ? "no checkpoint, started again"
      : `restored the checkpoint begun at ${seconds(l.checkpoint_taken_s)}`;
  return `${plural(l.lost_steps, "step")} lost, ${source}`;
}

// The number of steps that count. A crash takes steps off again, so the curve falls there.
export function ProgressChart(p: { training: Training; now: ReadonlySignal<number>; onMove: (s: number) => void }) {
  const ref = useRef<HTMLDivElement>(null);
  const width = useWidth(ref);
  const t = p.training;
  const scrub = useScrub(t.total_s, width, p.onMove);
  // Each label has its own line above the curve, so that neither hides the other.
  const labels = (t.losses ?? [])
    .map((l) => ({ l, text: lossLabel(l) }))
    .filter((q) => q.text)
    .slice(0, 4);
  const top = 8 + 15 * labels.length;
  const height = 122 + top;
  const bottom = height - 18;
  const points = t.progress ?? [];
  const most = points.reduce((m, q) => Math.max(m, q.steps), 0);
  const inner = Math.max(1, width - GUTTER - RIGHT);
  const x = (s: number) => GUTTER + (t.total_s > 0 ? s / t.total_s : 0) * inner;
  const y = (n: number) => bottom - (most > 0 ? n / most : 0) * (bottom - top);
  if (!points.length) return null;
  const line = points.map((q, i) => `${i ? "L" : "M"}${x(q.at_s).toFixed(1)},${y(q.steps).toFixed(1)}`).join("");
  const first = points[0];
  const last = points[points.length - 1];
  // Where the curve falls: the steps are taken off when the parameters are restored, some time after the crash.
  const fallOf = (l: Loss) => {
    const i = points.findIndex((q, k) => k > 0 && q.at_s >= l.at_s && q.steps < points[k - 1].steps);
    return i > 0 ? points[i - 1] : (points.filter((q) => q.at_s <= l.at_s).at(-1) ?? first);
  };
  const summary =
    `Steps that count: ${number(first.steps)} at the beginning, ${number(last.steps)} at ${seconds(last.at_s)}.` +
    labels.map((q) => ` At ${seconds(q.l.at_s)}: ${q.text}.`).join("");
  return (
    <div class="training-lanes" ref={ref} data-test="training-progress" role="img" aria-label={summary}>
      {width > 0 && (
        <svg width={width} height={height} {...scrub}>
          <TimeAxis end_s={t.total_s} width={width} y={bottom + 13} height={bottom} />
          <g class="training-axis">
            {ticks(most, 3).map((v) => (
              <g key={v}>
                <line x1={GUTTER} x2={GUTTER + inner} y1={y(v)} y2={y(v)} />
                <text x={GUTTER - 8} y={y(v) + 4} text-anchor="end">
                  {number(v)}
                </text>
              </g>
            ))}
          </g>
          <path class="training-progress-area" d={`${line}L${x(last.at_s)},${bottom}L${x(first.at_s)},${bottom}Z`} />
          <path class="training-progress-line" d={line} />
          <Cursor now={p.now} end_s={t.total_s} width={width} height={bottom} />
          {labels.map(({ l, text }, i) => {
            const fall = fallOf(l);
            const at = x(fall.at_s);
            const end = at + 6 + text.length * LETTER > width; // no space at the right
            return (
              <g key={i} class="training-loss-label">
                <line x1={at} x2={at} y1={4 + 15 * i} y2={y(fall.steps)} />
                <circle cx={at} cy={y(fall.steps)} r={3.5} />
                <text
                  x={end ? Math.max(at - 6, text.length * LETTER) : at + 6}
                  y={13 + 15 * i}
                  text-anchor={end ? "end" : "start"}>
                  {text}
                </text>
              </g>
            );
          })}
        </svg>
      )}
    </div>
  );
}

// ---- sweeps ----

interface Swept {
  sweep: Sweep | null;
  waiting: boolean;
  error: string | null;
}

// The sweep under way. The server does not give up a sweep when its client does, and one takes up to a second: if each
// change of the plan started another, simulations would have to wait for them. So there is only one at a time.
let sweeping: Promise<void> = Promise.resolve(); // resolves when the last one in line has ended

// Asks for a sweep when something else than the swept number changes. A change within 300 ms replaces the one before,
// and an answer that comes after a newer question is dropped.
export function useSweep(what: "workers" | "backup", from: number, to: number): Swept {
  const [state, setState] = useState<Swept>({ sweep: null, waiting: true, error: null });
  const { title: _title, show: _show, ...rest } = plan.value as Plan & { show?: unknown };
  const key = JSON.stringify({ ...rest, cluster: { ...rest.cluster, [what]: 0 }, from, to });
  useEffect(() => {
    if (!plan.value.cluster) return;
    const abort = new AbortController();
    setState((s) => ({ ...s, waiting: true }));
    const timer = setTimeout(async () => {
      const before = sweeping;
      let end = () => {};
      sweeping = new Promise((resolve) => (end = resolve));
      await before;
      try {
        if (abort.signal.aborted) return;
        const sweep = await api.sweep(plan.value, what, from, to);
        if (!abort.signal.aborted) setState({ sweep, waiting: false, error: null });
      } catch (e) {
        if (!abort.signal.aborted) setState({ sweep: null, waiting: false, error: messageOf(e) });
      } finally {
        end();
      }
    }, 300);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [key]);
  return state;
}

interface ChartProps {
  x: number[];
  y: number[];
  log: boolean;
  current: { x: number; y: number | null };
  knee: number | null;
  onHover: (i: number | null) => void; // number of the point under the pointer
}

const HEIGHT = 138;

function SweepPlot(p: ChartProps) {
  const ref = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot | null>(null);
  const width = useWidth(ref);
  const theme = themes.value;
  const key = JSON.stringify([p.x, p.y, p.current, p.knee]);
  useEffect(() => {
    const el = ref.current;
    if (!el || width <= 0 || !p.x.length) return;
    const color = {
      text: cssColor(el, "--muted", "#667"),
      line: cssColor(el, "--line", "#ccd"),
      accent: cssColor(el, "--accent", "#26c"),
      strong: cssColor(el, "--text", "#112"),
      panel: cssColor(el, "--panel", "#fff"),
    };
    const low = p.x[0];
    const high = p.x[p.x.length - 1];
    const font = `11px ${getComputedStyle(el).fontFamily}`;
    const ratio = devicePixelRatio || 1;
    const range: [number, number] = p.log ? [low * 0.84, Math.max(high, low + 1) * 1.2] : [low - 0.3, high + 0.3];
    const top = Math.max(...p.y, p.current.y ?? 0) * 1.18 || 1;
    const marks = (u: uPlot) => {
      const g = u.ctx;
      const { top: up, height } = u.bbox;
      const vertical = (at: number, dash: number[], stroke: string) => {
        const px = Math.round(u.valToPos(at, "x", true));
        g.save();
        g.beginPath();
        g.strokeStyle = stroke;
        g.lineWidth = ratio;
        g.setLineDash(dash.map((d) => d * ratio));
        g.moveTo(px, up);
        g.lineTo(px, up + height);
        g.stroke();
        g.restore();
        return px;
      };
      const label = (px: number, text: string, fill: string, line: number) => {
        g.save();
        g.font = `${11 * ratio}px ${getComputedStyle(el).fontFamily}`;
        g.fillStyle = fill;
        const w = g.measureText(text).width;
        const toLeft = px + w + 8 * ratio > u.bbox.left + u.bbox.width;
        g.textAlign = toLeft ? "right" : "left";
        g.fillText(text, px + (toLeft ? -5 : 5) * ratio, up + (11 + 13 * line) * ratio);
        g.restore();
      };
      if (p.knee !== null && p.knee >= low && p.knee <= high && p.knee !== p.current.x)
        label(vertical(p.knee, [3, 3], color.text), "more adds little", color.text, 0);
      if (p.current.x >= low && p.current.x <= high) {
        const px = vertical(p.current.x, [], color.accent);
        label(px, "now", color.accent, 1);
        if (p.current.y !== null) {
          g.save();
          g.beginPath();
          g.fillStyle = color.accent;
          g.strokeStyle = color.panel;
          g.lineWidth = 2 * ratio;
          g.arc(px, u.valToPos(p.current.y, "y", true), 5 * ratio, 0, 7);
          g.fill();
          g.stroke();
          g.restore();
        }
      }
    };
    const u = new uPlot(
      {
        width,
        height: HEIGHT,
        legend: { show: false },
        padding: [8, 8, 0, 0],
        cursor: { drag: { x: false, y: false }, y: false, points: { size: 7 } },
        scales: {
          x: { time: false, distr: p.log ? 3 : 1, log: p.log ? 2 : 10, range: () => range },
          y: { range: () => [0, top] },
        },
        axes: [
          {
            stroke: color.text,
            font,
            size: 26,
            gap: 3,
            grid: { stroke: color.line, width: 1 },
            ticks: { show: false },
            splits: () => (p.x.length > 9 && width < 420 ? p.x.filter((_, i) => i % 2 === 0) : p.x),
            values: (_u, v) => v.map(String),
            filter: (_u, v) => v,
          },
          {
            stroke: color.text,
            font,
            size: 50,
            gap: 4,
            grid: { stroke: color.line, width: 1 },
            ticks: { show: false },
            splits: () => ticks(top, 3),
            values: (_u, v) => v.map((n) => number(n)),
          },
        ],
        series: [{}, { stroke: color.strong, width: 1.5, points: { show: true, size: 5, fill: color.strong } }],
        hooks: {
          draw: [marks],
          setCursor: [(c) => p.onHover((c.cursor.left ?? -1) < 0 ? null : (c.cursor.idx ?? null))],
        },
      },
      [p.x, p.y],
      el,
    );
    chart.current = u;
    return () => {
      u.destroy();
      chart.current = null;
    };
  }, [key, theme, width]);
  return <div class="training-plot" ref={ref} aria-hidden="true" />;
}

const counted = (n: number, many: string) => plural(n, many.replace(/s$/, ""), many);

// How many are useful, in a sentence.
function conclusion(
  points: SweepPoint[],
  member: "steps_per_s" | "examples_per_s",
  best: SweepPoint,
  unit: string,
  of: string,
  knee: number | null,
  joins: (from: number, to: number) => string,
): string {
  const last = points[points.length - 1];
  const most = `${number(best[member])} ${unit} with ${best.value}`;
  const fall = points.findIndex((q, i) => i > 0 && q[member] < 0.95 * points[i - 1][member]);
  if (fall > 0) {
    const [before, after] = [points[fall - 1], points[fall]];
    const again = points.find((q, i) => i > fall && q[member] > before[member]);
    return (
      `${after.value} ${of} make ${number(after[member])} ${unit}, less than ${before.value} ` +
      `(${number(before[member])})${joins(before.value, after.value)}. ` +
      (again ? `From ${again.value} on there are more again. ` : "") +
      `The most is ${most}.`
    );
  }
  if (knee !== null && member === "examples_per_s")
    return `From ${knee} on, twice as many add less than 5 %. The most is ${most}.`;
  if (best.value !== last.value || points.length < 2) return `The most is ${most}.`;
  const before = points[points.length - 2];
  const gain = last[member] / before[member] - 1;
  return `More are still useful: ${last.value} instead of ${before.value} give ${percent(gain)} more.`;
}

// One chart of a sweep, with a sentence that says what it shows, and the points for readers who do not see it.
export function SweepChart(p: {
  title: string;
  test: string;
  swept: Swept;
  member: "steps_per_s" | "examples_per_s";
  of: string;
  unit: string;
  log: boolean;
  current: { x: number; y: number | null };
  joins?: (from: number, to: number) => string; // who takes part with `to`, but not with `from`
}) {
  const { sweep, waiting, error } = p.swept;
  const points = (sweep?.points ?? []).filter((q) => Number.isFinite(q[p.member]));
  const x = points.map((q) => q.value);
  const y = points.map((q) => q[p.member]);
  const [hover, setHover] = useState<number | null>(null);
  const i = hover !== null && hover < x.length ? hover : null;
  // The simulator names the smallest number that is within 1 % of the most examples/s.
  const named = p.member === "examples_per_s" ? points.find((q) => q.value === sweep?.best) : undefined;
  const best = named ?? (points.length ? points.reduce((a, b) => (b[p.member] > a[p.member] ? b : a)) : null);
  return (
    <figure class="training-chart" data-test={p.test} aria-busy={waiting}>
      <figcaption>
        <strong>{p.title}</strong>
        <span class="training-calculating" aria-hidden={!waiting}>
          {waiting ? "calculating …" : i !== null ? `${counted(x[i], p.of)}: ${number(y[i])} ${p.unit}` : `${p.of} →`}
        </span>
      </figcaption>
      {error && <p class="training-chart-error">{error}</p>}
      {!error && points.length > 0 && (
        <SweepPlot x={x} y={y} log={p.log} current={p.current} knee={sweep?.knee ?? null} onHover={setHover} />
      )}
      {!error && !points.length && (
        <div class="training-plot-empty">{waiting ? "" : "The simulator gave no points."}</div>
      )}
      <p class="training-note training-conclusion" data-test={`${p.test}-conclusion`}>
        {!waiting &&
          points.length > 0 &&
          best &&
          (p.current.y === null ? "" : `Now, with ${counted(p.current.x, p.of)}: ${number(p.current.y)} ${p.unit}. `) +
            conclusion(points, p.member, best, p.unit, p.of, sweep?.knee ?? null, p.joins ?? (() => ""))}
      </p>
      <ul class="training-hidden">
        {points.map((q) => (
          <li key={q.value} data-test={`${p.test}-point`} data-x={q.value} data-value={String(q[p.member])}>
            {`${counted(q.value, p.of)}: ${number(q[p.member])} ${p.unit}`}
          </li>
        ))}
      </ul>
    </figure>
  );
}
