// Controls and number formats that several views use.
import type { ButtonHTMLAttributes, ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

// ---- numbers ----

const TIMES: [number, string][] = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]];
const LARGE: [number, string][] = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]];

// Three significant digits without an exponent: 0.0123, 1.23, 12.3, 123, 1230.
export function threeDigits(x: number): string {
  if (!Number.isFinite(x)) return "–";
  if (x === 0) return "0";
  const digits = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(x)) + 1e-9));
  return x.toFixed(Math.min(digits, 9));
}

export function formatSeconds(s: number | null | undefined): string {
  if (s === null || s === undefined || !Number.isFinite(s)) return "–";
  if (s === 0) return "0 s";
  const [scale, unit] = TIMES.find(([u]) => Math.abs(s) >= u * 0.9995) ?? TIMES[3];
  return `${threeDigits(s / scale)} ${unit}`;
}

export function formatLarge(x: number, unit: string): string {
  const [scale, prefix] = LARGE.find(([u]) => Math.abs(x) >= u * 0.9995) ?? LARGE[4];
  return `${threeDigits(x / scale)} ${prefix}${unit}`;
}

export const formatBytes = (x: number) => formatLarge(x, "B");
export const formatPercent = (share: number) => `${Math.round(share * 100)} %`;

// "1.79× faster than", "3.10× slower than", "as fast as": for the sentence about two times.
export function compareTimes(ours: number, other: number): string {
  const ratio = other / ours;
  if (Math.abs(ratio - 1) < 0.005) return "as fast as";
  return ratio > 1 ? `${threeDigits(ratio)}× faster than` : `${threeDigits(1 / ratio)}× slower than`;
}

// A quantity that people read and type with a unit, kept as a plain number in the plan.
export interface Quantity {
  show: (x: number) => string; // the exact value
  parse: (text: string) => number | null;
}

// The shortest text that is exactly x: without the noise of a division such as 3.0000000000000004.
const exact = (x: number) => String(Number(x.toPrecision(12)));

function parseWith(units: Record<string, number>, text: string): number | null {
  const m = /^([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)\s*(\S*)$/i.exec(text.trim().replace(",", "."));
  if (!m) return null;
  const factor = units[m[2].toLowerCase()];
  return factor === undefined ? null : Number(m[1]) * factor;
}

export const factor: Quantity = {
  show: (x) => `${exact(x)}×`,
  parse: (t) => parseWith({ "": 1, "×": 1, x: 1 }, t),
};

export const microseconds: Quantity = {
  show: (x) => (x >= 1e6 ? `${exact(x / 1e6)} s` : x >= 1e3 ? `${exact(x / 1e3)} ms` : `${exact(x)} µs`),
  parse: (t) => parseWith({ "": 1, us: 1, "µs": 1, "μs": 1, ms: 1e3, s: 1e6, ns: 1e-3 }, t),
};

function large(unit: string): Quantity {
  const units: Record<string, number> = { "": 1, [unit.toLowerCase()]: 1 };
  for (const [scale, prefix] of LARGE) {
    if (!prefix) continue;
    units[prefix.toLowerCase()] = scale;
    units[`${prefix}${unit}`.toLowerCase()] = scale;
  }
  return {
    show: (x) => {
      const [scale, prefix] = LARGE.find(([u]) => x >= u) ?? LARGE[4];
      return `${exact(x / scale)} ${prefix}${unit}`;
    },
    parse: (t) => parseWith(units, t),
  };
}

export const bytes = large("B");
export const bandwidth = large("B/s");
export const count: Quantity = { show: exact, parse: (t) => parseWith({ "": 1 }, t) };

// ---- controls ----

export interface SliderProps {
  label: string;
  name?: string; // accessible name, if the label alone is ambiguous
  test: string; // data-test of the range; the field has `-value` added
  value: number;
  low: number;
  high: number;
  quantity?: Quantity;
  linear?: boolean; // default: logarithmic
  step?: number; // of a linear slider
  least?: number; // smallest and largest value of the field; default low and high
  most?: number;
  unlimited?: number; // the value of the right end, shown as "unlimited"
  color?: string;
  title?: string; // what the label means
  onChange: (value: number) => void;
}

const POSITIONS_PER_DECADE = 50; // so that 1, 2 and 5 are positions, and an arrow key changes a value by 5 %

// A range input with a logarithmic scale and a field with the exact value.
export function Slider(p: SliderProps) {
  const q = p.quantity ?? count;
  const last = p.linear ? p.high : Math.round(Math.log10(p.high / p.low) * POSITIONS_PER_DECADE);
  const end = p.unlimited === undefined ? last : last + POSITIONS_PER_DECADE / 10;
  const isUnlimited = p.unlimited !== undefined && p.value >= p.unlimited;

  const toValue = (position: number) => {
    if (p.linear) return position;
    if (p.unlimited !== undefined && position > last) return p.unlimited;
    return Number((p.low * 10 ** (position / POSITIONS_PER_DECADE)).toPrecision(3));
  };
  const toPosition = (value: number) => {
    if (p.linear) return value;
    if (isUnlimited) return end;
    const x = Math.log10(Math.max(value, p.low) / p.low) * POSITIONS_PER_DECADE;
    return Math.min(last, Math.max(0, Math.round(x)));
  };
  const shown = isUnlimited ? "unlimited" : q.show(p.value);
  const parse = (text: string) =>
    p.unlimited !== undefined && /^(unlimited|no limit|∞)$/i.test(text.trim()) ? p.unlimited : q.parse(text);

  return (
    <div class="slider" title={p.title} style={p.color ? { "--slider-color": p.color } : undefined}>
      <span class="slider-label" aria-hidden="true">{p.label}</span>
      <input
        class="slider-range"
        type="range"
        data-test={p.test}
        data-value={p.value}
        aria-label={p.name ?? p.label}
        aria-valuetext={shown}
        min={p.linear ? p.low : 0}
        max={end}
        step={p.linear ? (p.step ?? 1) : 1}
        value={toPosition(p.value)}
        onInput={(e) => p.onChange(toValue(Number(e.currentTarget.value)))}
      />
      <TextField
        test={`${p.test}-value`}
        name={`${p.name ?? p.label}, exact value`}
        text={shown}
        accept={(text) => {
          const v = parse(text);
          return v !== null && v >= (p.least ?? p.low) && v <= (p.most ?? p.unlimited ?? p.high) ? v : null;
        }}
        onAccept={p.onChange}
      />
    </div>
  );
}

// A field that takes its text when Enter is pressed or the focus leaves. A text that is not accepted is marked, and
// is replaced by the current value when the focus leaves.
export function TextField(p: {
  test: string; name: string; text: string;
  accept: (text: string) => number | null; onAccept: (value: number) => void;
}) {
  const [draft, setDraft] = useState<string | null>(null);
  const field = useRef<HTMLInputElement>(null);
  const value = draft === null ? null : p.accept(draft);
  const commit = () => {
    if (value !== null && draft !== p.text) p.onAccept(value);
    setDraft(null);
  };
  return (
    <input
      ref={field}
      class="field"
      type="text"
      inputMode="decimal"
      data-test={p.test}
      aria-label={p.name}
      aria-invalid={draft !== null && value === null}
      value={draft ?? p.text}
      onInput={(e) => setDraft(e.currentTarget.value)}
      onFocus={(e) => e.currentTarget.select()}
      onBlur={commit}
      onKeyDown={(e) => {
        if (e.key === "Enter" && value !== null) commit();
        if (e.key === "Escape") setDraft(null);
      }}
    />
  );
}

// A whole number with arrows. Values out of range are marked and not reported.
export function NumberField(p: {
  test: string; name: string; value: number; low: number; high: number; title?: string;
  onChange: (value: number) => void;
}) {
  const [draft, setDraft] = useState<string | null>(null);
  const valid = (text: string) => /^\d+$/.test(text) && Number(text) >= p.low && Number(text) <= p.high;
  return (
    <input
      class="field"
      type="number"
      data-test={p.test}
      aria-label={p.name}
      title={p.title}
      min={p.low}
      max={p.high}
      step={1}
      style={{ width: `calc(${Math.max(3, String(draft ?? p.value).length)}ch + 34px)` }}
      aria-invalid={draft !== null && !valid(draft)}
      value={draft ?? p.value}
      onInput={(e) => {
        const text = e.currentTarget.value;
        setDraft(text);
        if (valid(text) && Number(text) !== p.value) p.onChange(Number(text));
      }}
      onBlur={() => setDraft(null)}
    />
  );
}

type ButtonProps = Omit<ButtonHTMLAttributes<HTMLButtonElement>, "children"> & {
  test: string; children: ComponentChildren; pressed?: boolean; disabled?: boolean; kind?: string;
};

export function Button({ test, children, pressed, kind, ...rest }: ButtonProps) {
  return (
    <button type="button" data-test={test} aria-pressed={pressed} {...rest} class={`button ${kind ?? ""}`}>
      {children}
    </button>
  );
}

export function Swatch(p: { color: string }) {
  return <span class="swatch" style={{ background: p.color }} aria-hidden="true" />;
}

export function Bar(p: { share: number; color: string; name: string }) {
  const percent = Math.min(100, Math.max(0, p.share * 100));
  return (
    <div class="bar" role="img" aria-label={`${p.name}: ${formatPercent(p.share)}`}>
      <div class="bar-fill" style={{ width: `${percent}%`, background: p.color }} />
    </div>
  );
}

// The value, but only after it has not changed for a while: for work that is not worth doing at every slider position.
export function useSettled<T>(value: T, ms: number): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), ms);
    return () => clearTimeout(timer);
  }, [value, ms]);
  return settled;
}
