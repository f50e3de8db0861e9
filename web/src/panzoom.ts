// The position and zoom of the graph, and how pointers change them.
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

  // After a click on a scope: the middle of its upper edge stays where it was, unless little of it or of the graph is seen then.
  settle(before: { x: number; y: number }, p: Placed, l: Layout) {
    const whole = { x: 0, y: 0, w: l.width, h: l.height };
    this.x = before.x - (p.x + p.w / 2) * this.k;
    this.y = before.y - p.y * this.k;
    if (p.open && this.visible(p) < 0.6) this.reveal(p);
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

// Pan with one pointer, pan and zoom with two, zoom with the wheel. A finger that moves up or down scrolls the page.
// Returns a function that removes the listeners.
export function listen(svg: SVGSVGElement, view: View, moved: { current: boolean }): () => void {
  const pointers = new Map<number, { x: number; y: number }>();
  let spread = 0,
    middle = { x: 0, y: 0 };
  const local = (e: { clientX: number; clientY: number }) => {
    const box = svg.getBoundingClientRect();
    return { x: e.clientX - box.left, y: e.clientY - box.top };
  };
  const down = (e: PointerEvent) => {
    if (e.button !== 0) return;
    pointers.set(e.pointerId, local(e));
    if (pointers.size === 1) moved.current = false;
    spread = 0;
  };
  const move = (e: PointerEvent) => {
    const before = pointers.get(e.pointerId);
    if (!before) return;
    const now = local(e);
    if (pointers.size === 1) {
      if (!moved.current && Math.hypot(now.x - before.x, now.y - before.y) < 4) return;
      // The browser takes over a finger that moves up or down; until then it must not move the graph.
      if (!moved.current && e.pointerType === "touch" && Math.abs(now.y - before.y) > Math.abs(now.x - before.x)) return;
      if (!moved.current) {
        moved.current = true;
        // The pointer must be ours even outside, but only now: a captured pointer would take clicks from the boxes.
        svg.setPointerCapture(e.pointerId);
        svg.classList.add("graph-grabbed");
      }
      view.pan(now.x - before.x, now.y - before.y);
      pointers.set(e.pointerId, now);
      return;
    }
    moved.current = true;
    pointers.set(e.pointerId, now);
    const [a, b] = [...pointers.values()];
    const wide = Math.hypot(a.x - b.x, a.y - b.y);
    const center = { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 };
    if (spread > 0) {
      view.pan(center.x - middle.x, center.y - middle.y);
      view.zoom(wide / spread, center.x, center.y);
    }
    spread = wide;
    middle = center;
  };
  const up = (e: PointerEvent) => {
    pointers.delete(e.pointerId);
    spread = 0;
    svg.classList.remove("graph-grabbed");
  };
  const wheel = (e: WheelEvent) => {
    e.preventDefault();
    const at = local(e);
    const lines = e.deltaMode === 1 ? 16 : 1;
    view.zoom(Math.exp(-e.deltaY * lines * (e.ctrlKey ? 0.01 : 0.0015)), at.x, at.y);
  };
  // Styles cannot say that only one finger scrolls.
  const touch = (e: TouchEvent) => {
    if (e.touches.length > 1 && e.cancelable) e.preventDefault();
  };
  svg.addEventListener("touchstart", touch, { passive: false });
  svg.addEventListener("touchmove", touch, { passive: false });
  svg.addEventListener("pointerdown", down);
  svg.addEventListener("pointermove", move);
  svg.addEventListener("pointerup", up);
  svg.addEventListener("pointercancel", up);
  svg.addEventListener("wheel", wheel, { passive: false });
  return () => {
    svg.removeEventListener("touchstart", touch);
    svg.removeEventListener("touchmove", touch);
    svg.removeEventListener("pointerdown", down);
    svg.removeEventListener("pointermove", move);
    svg.removeEventListener("pointerup", up);
    svg.removeEventListener("pointercancel", up);
    svg.removeEventListener("wheel", wheel);
  };
}
