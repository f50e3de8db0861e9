// The position and zoom of the graph, and how pointers pan and zoom the graph and the timeline.
import { type Layout, type Placed } from "./layout";

const LEAST_SCALE = 0.04;
const MOST_SCALE = 3;

export class View {
  k = 1;
  x = 0;
  y = 0;
  automatic = true; // until the user moves it, the whole graph is shown
  svg!: SVGSVGElement;
  stage!: SVGGElement;

  apply() {
    this.stage.setAttribute(
      "transform",
      `translate(${this.x.toFixed(2)},${this.y.toFixed(2)}) scale(${this.k.toFixed(4)})`,
    );
  }

  // Asking an element for its size in the middle of a drawing is slow, so the size is kept until it changes.
  private known: { w: number; h: number } | null = null;

  size() {
    return (this.known ??= { w: this.svg.clientWidth || 1, h: this.svg.clientHeight || 1 });
  }

  resized() {
    this.known = null;
  }

  zoom(factor: number, cx = this.size().w / 2, cy = this.size().h / 2) {
    const k = Math.min(MOST_SCALE, Math.max(LEAST_SCALE, this.k * factor));
    this.x = cx - ((cx - this.x) * k) / this.k;
    this.y = cy - ((cy - this.y) * k) / this.k;
    this.k = k;
    this.automatic = false;
    this.apply();
  }

  pan(dx: number, dy: number) {
    this.x += dx;
    this.y += dy;
    this.automatic = false;
    this.apply();
  }

  fitScale(w: number, h: number) {
    const { w: vw, h: vh } = this.size();
    return Math.max(LEAST_SCALE, Math.min(1.15, (vw - 32) / w, (vh - 32) / h));
  }

  center(x: number, y: number, w: number, h: number, k: number) {
    const { w: vw, h: vh } = this.size();
    this.k = k;
    this.x = (vw - w * k) / 2 - x * k;
    this.y = (vh - h * k) / 2 - y * k;
    this.apply();
  }

  fit(l: Layout) {
    this.automatic = true;
    this.center(0, 0, l.width, l.height, this.fitScale(l.width, l.height));
  }

  // How much of a rectangle of the graph is in the view, from 0 to 1.
  private visible(p: { x: number; y: number; w: number; h: number }): number {
    const { w: vw, h: vh } = this.size();
    const overlap = (at: number, long: number, room: number) =>
      Math.max(0, Math.min(room, at + long * this.k) - Math.max(0, at)) / (long * this.k || 1);
    return overlap(this.x + p.x * this.k, p.w, vw) * overlap(this.y + p.y * this.k, p.h, vh);
  }

  // After a change that is not the user's: the position stays unless a part of the graph is no longer seen.
  keep(l: Layout) {
    if (this.automatic && this.visible({ x: 0, y: 0, w: l.width, h: l.height }) < 0.999) this.fit(l);
    else this.apply();
  }

  // After a click on a scope: the middle of its upper edge stays where it was, unless a part of it, or of the scopes
  // around it, which have become larger too, would no longer be seen.
  settle(before: { x: number; y: number }, p: Placed, l: Layout) {
    const whole = { x: 0, y: 0, w: l.width, h: l.height };
    this.x = before.x - (p.x + p.w / 2) * this.k;
    this.y = before.y - p.y * this.k;
    let outer = p;
    for (let b = p.box.parent; b && l.placed.has(b); b = b.parent) outer = l.placed.get(b)!;
    if (this.fitScale(outer.w, outer.h) < 0.5 * this.k) outer = p; // it would be too small to read
    if (p.open && this.visible(outer) < 0.999) this.reveal(outer);
    else if (!p.open && (this.visible(whole) < 0.6 || (this.automatic && this.fitScale(l.width, l.height) > 1.3 * this.k)))
      return this.fit(l);
    this.automatic &&= this.visible(whole) > 0.999;
    this.apply();
  }

  // Moves as little as needed to show a box; zooms out if the box is larger than the view.
  reveal(p: Placed, least = 0.25) {
    const { w: vw, h: vh } = this.size();
    if (p.w * this.k > vw - 16 || p.h * this.k > vh - 16) {
      this.center(p.x, p.y, p.w, p.h, Math.max(least, Math.min(this.k, this.fitScale(p.w, p.h))));
      return;
    }
    const edge = 12;
    const left = this.x + p.x * this.k,
      top = this.y + p.y * this.k;
    this.x += Math.max(0, edge - left) - Math.max(0, left + p.w * this.k - (vw - edge));
    this.y += Math.max(0, edge - top) - Math.max(0, top + p.h * this.k - (vh - edge));
    this.apply();
  }
}

export interface Point {
  x: number;
  y: number;
}

export interface Gestures {
  pan: (dx: number, dy: number) => void;
  zoom: (factor: number, at: Point) => void;
  moved: { current: boolean }; // the pointer that is down, or was down last, has moved: this is not a click
  grab?: (on: boolean) => void; // one pointer begins to pan, or a pointer is lifted
  hover?: (e: PointerEvent) => void; // no button is pressed
  tap?: (e: PointerEvent) => void; // a pointer is lifted that has not moved
  wheelOn?: HTMLElement; // takes the wheel for this element
}

const WHEEL = 0.0015; // zoom of a pixel of the wheel
const PINCH_WHEEL = 0.01; // with Ctrl, as touchpads report pinches
const LINE = 16; // pixels of a line of the wheel
const STILL = 4; // pixels that a click may move
const NARROWEST = 20; // distance of two fingers below which their zoom would jump

// Pan with one pointer, pan and zoom with two, zoom with the wheel; sideways and with Shift, the wheel pans. A finger
// that moves up or down scrolls the page, and so does the wheel with Alt. Points are relative to the element. Returns a
// function that removes the listeners.
export function followPointers(on: HTMLElement | SVGSVGElement, g: Gestures): () => void {
  const pointers = new Map<number, Point>();
  let spread = 0,
    middle: Point = { x: 0, y: 0 };
  const local = (e: { clientX: number; clientY: number }): Point => {
    const box = on.getBoundingClientRect();
    return { x: e.clientX - box.left, y: e.clientY - box.top };
  };
  const down = (e: PointerEvent) => {
    if (e.button !== 0) return;
    pointers.set(e.pointerId, local(e));
    if (pointers.size === 1) g.moved.current = false;
    spread = 0;
  };
  const drag = (e: PointerEvent, before: Point, now: Point) => {
    const [dx, dy] = [now.x - before.x, now.y - before.y];
    if (!g.moved.current) {
      if (Math.hypot(dx, dy) < STILL) return;
      // The browser takes over a finger that moves up or down; until then it must not pan.
      if (e.pointerType === "touch" && Math.abs(dy) > Math.abs(dx)) return;
      g.moved.current = true;
      // The pointer must be ours even outside, but only now: a captured pointer would take clicks from what is inside.
      on.setPointerCapture(e.pointerId);
      g.grab?.(true);
    }
    pointers.set(e.pointerId, now);
    g.pan(dx, dy);
  };
  const move = (e: PointerEvent) => {
    const before = pointers.get(e.pointerId);
    if (!before) {
      g.hover?.(e);
      return;
    }
    const now = local(e);
    if (pointers.size === 1) {
      drag(e, before, now);
      return;
    }
    g.moved.current = true;
    pointers.set(e.pointerId, now);
    const [a, b] = [...pointers.values()];
    const wide = Math.max(NARROWEST, Math.hypot(a.x - b.x, a.y - b.y));
    const center = { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 };
    if (spread > 0) {
      g.pan(center.x - middle.x, center.y - middle.y);
      g.zoom(wide / spread, center);
    }
    spread = wide;
    middle = center;
  };
  const up = (e: PointerEvent) => {
    const known = pointers.delete(e.pointerId);
    spread = 0;
    g.grab?.(false);
    if (known && !g.moved.current && e.type === "pointerup") g.tap?.(e);
  };
  const wheel = (e: WheelEvent) => {
    if (e.altKey) return;
    e.preventDefault();
    const pixels = e.deltaMode === 1 ? LINE : 1;
    const sideways = e.shiftKey ? e.deltaY || e.deltaX : Math.abs(e.deltaX) > Math.abs(e.deltaY) ? e.deltaX : 0;
    if (sideways !== 0) g.pan(-sideways * pixels, 0);
    else g.zoom(Math.exp(-e.deltaY * pixels * (e.ctrlKey ? PINCH_WHEEL : WHEEL)), local(e));
  };
  // Styles cannot say that only one finger scrolls.
  const touch = (e: TouchEvent) => {
    if (e.touches.length > 1 && e.cancelable) e.preventDefault();
  };
  const all = new AbortController();
  const { signal } = all;
  const target: HTMLElement = on as HTMLElement; // both kinds of elements have the same events
  for (const type of ["touchstart", "touchmove"] as const)
    target.addEventListener(type, touch, { passive: false, signal });
  target.addEventListener("pointerdown", down, { signal });
  target.addEventListener("pointermove", move, { signal });
  target.addEventListener("pointerup", up, { signal });
  target.addEventListener("pointercancel", up, { signal });
  (g.wheelOn ?? target).addEventListener("wheel", wheel, { passive: false, signal });
  return () => all.abort();
}
