"""tests/oracle/images.py -- image and audio ops against matrices, scipy.ndimage, colorsys, wave and zlib.

Resizing is a product with a matrix for each side here; cropping and transforming are scipy's map_coordinates; boxes are
suppressed by comparing all with all.  Files are written here, by few lines that know nothing of the library's.
"""
import colorsys
import io
import math
import struct
import wave
import zlib

import numpy as np
import scipy.ndimage as nd
from numpy.lib.stride_tricks import sliding_window_view

from graph import STRING, Graph, Type
from table import covers

RNG = np.random.default_rng(5)


def run(name, inputs, n=1, **attrs):
    g = Graph()
    y = g.op(name, [np.asarray(x) for x in inputs], **attrs)
    out = g.run([y[i] for i in range(n)])
    g.close()
    return out if n > 1 else out[0]


def gradient(name, inputs, of, dy, **attrs):
    """The gradients of the inputs numbered `of`, dy having arrived at output 0."""
    g = Graph()
    xs = [g.const(np.asarray(x)) for x in inputs]
    y = g.op(name, xs, **attrs)
    dxs = g.gradients([y[0]], [xs[i] for i in of], [g.const(dy)])
    out = g.run(dxs)
    g.close()
    return out


def near(got, want, tolerance=1e-4):
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    assert got.shape == want.shape, (got.shape, want.shape)
    assert np.allclose(got, want, rtol=tolerance, atol=tolerance, equal_nan=True), np.max(np.abs(got - want))


def image(*shape, t=np.float32):
    return RNG.uniform(0, 200, shape).astype(t)


# ---- resizing: one matrix a side ----

def both_sides(x, rows, cols):
    return np.einsum("yi,bijc,xj->byxc", rows, x.astype(np.float64), cols)


def scale_of(n_in, n_out, align):
    return (n_in - 1) / (n_out - 1) if align and n_out > 1 else n_in / n_out


def cubic(d, a):
    d = abs(d)
    return (a + 2) * d ** 3 - (a + 3) * d ** 2 + 1 if d <= 1 else a * (d ** 3 - 5 * d ** 2 + 8 * d - 4) if d < 2 else 0


def bicubic_matrix(n_in, n_out, align, half):
    m, s = np.zeros((n_out, n_in)), np.float32(scale_of(n_in, n_out, align))
    for i in range(n_out):
        at = float((np.float32(i) + np.float32(0.5)) * s - np.float32(0.5) if half else np.float32(i) * s)
        below = math.floor(at)
        part = np.rint((at - below) * 1024) / 1024
        for k in range(below - 1, below + 3):
            inside = 0 <= k < n_in
            if inside or not half:
                m[i, min(max(k, 0), n_in - 1)] += cubic(below + part - k, -0.5 if half else -0.75)
        if half:
            m[i] /= m[i].sum()
    return m


def area_matrix(n_in, n_out, align):
    m, s = np.zeros((n_out, n_in)), float(np.float32(scale_of(n_in, n_out, align)))
    for i in range(n_out):
        for k in range(math.floor(i * s), math.ceil((i + 1) * s)):
            m[i, min(k, n_in - 1)] += min(k + 1, (i + 1) * s) - max(k, i * s)
    return m / s


def sizes():
    return [int(v) for v in RNG.integers(1, 12, 4)]


@covers("ResizeBicubic", "ResizeBicubicGrad")
def test_resize_bicubic_is_a_product_of_matrices():
    h, w, oh, ow = sizes()
    for align, half in ((False, False), (True, False), (False, True)):
        for t in (np.uint8, np.float32, np.float64, np.int64):
            x = image(2, h, w, 3, t=t)
            rows, cols = bicubic_matrix(h, oh, align, half), bicubic_matrix(w, ow, align, half)
            attrs = {"align_corners": align, "half_pixel_centers": half}
            near(run("ResizeBicubic", [x, np.int32([oh, ow])], **attrs), both_sides(x, rows, cols), 2e-3)
            if t in (np.float32, np.float64):
                dy = image(2, oh, ow, 3)
                near(run("ResizeBicubicGrad", [dy, x], **attrs), both_sides(dy, rows.T, cols.T), 2e-3)


@covers("ResizeArea")
def test_resize_area_is_a_product_of_matrices():
    h, w, oh, ow = sizes()
    for align in (False, True):
        if align and ((h == 1 and oh > 1) or (w == 1 and ow > 1)):
            continue  # a step of 0 covers nothing
        x = image(2, h, w, 2)
        want = both_sides(x, area_matrix(h, oh, align), area_matrix(w, ow, align))
        near(run("ResizeArea", [x, np.int32([oh, ow])], align_corners=align), want, 2e-3)


KERNELS = {
    "box": (1, lambda d: 1.0 if d < 0.5 else 0.5 if d == 0.5 else 0.0),
    "triangle": (1, lambda d: max(0.0, 1 - d)),
    "keyscubic": (2, lambda d: cubic(d, -0.5)),
    "mitchellcubic": (2, lambda d: (7 * d ** 3 - 12 * d ** 2 + 16 / 3) / 6 if d < 1 else
                      (-7 / 3 * d ** 3 + 12 * d ** 2 - 20 * d + 32 / 3) / 6 if d < 2 else 0.0),
    "gaussian": (1.5, lambda d: math.exp(-2 * d * d) if d < 1.5 else 0.0),
    "lanczos1": (1, lambda d: np.sinc(d) ** 2 if d < 1 else 0.0),
    "lanczos3": (3, lambda d: np.sinc(d) * np.sinc(d / 3) if d < 3 else 0.0),
    "lanczos5": (5, lambda d: np.sinc(d) * np.sinc(d / 5) if d < 5 else 0.0),
}


def span_matrix(n_in, n_out, scale, shift, kernel, antialias):
    m, (_, at) = np.zeros((n_out, n_in)), KERNELS[kernel]
    wide = max(1 / scale, 1) if antialias else 1
    for i in range(n_out):
        place = (i + 0.5 - shift) / scale
        if 0 <= place <= n_in:
            m[i] = [at(abs(k + 0.5 - place) / wide) for k in range(n_in)]
            m[i] /= m[i].sum() if abs(m[i].sum()) > 1e-30 else 1
    return m


@covers("ScaleAndTranslate", "ScaleAndTranslateGrad")
def test_scale_and_translate_is_a_product_of_matrices():
    h, w, oh, ow = sizes()
    for kernel in KERNELS:
        if kernel == "box":
            continue  # jumps where pixels meet
        scale, shift = RNG.uniform(0.37, 2.1, 2).astype(np.float32), RNG.uniform(-1, 1, 2).astype(np.float32)
        antialias = bool(RNG.integers(0, 2))
        x, dy = image(2, h, w, 2), image(2, oh, ow, 2)
        rows = span_matrix(h, oh, float(scale[0]), float(shift[0]), kernel, antialias)
        cols = span_matrix(w, ow, float(scale[1]), float(shift[1]), kernel, antialias)
        attrs = {"kernel_type": kernel, "antialias": antialias}
        near(run("ScaleAndTranslate", [x, np.int32([oh, ow]), scale, shift], **attrs), both_sides(x, rows, cols), 5e-3)
        near(run("ScaleAndTranslateGrad", [dy, x, scale, shift], **attrs), both_sides(dy, rows.T, cols.T), 5e-3)


# ---- places in images ----

def sampled(picture, ys, xs, order=1, mode="constant", fill=0.0):
    return np.stack([nd.map_coordinates(picture[..., k].astype(np.float64), [ys, xs], order=order, mode=mode, cval=fill)
                     for k in range(picture.shape[-1])], -1)


@covers("CropAndResize", "CropAndResizeGradImage", "CropAndResizeGradBoxes")
def test_crop_and_resize_takes_what_scipy_does():
    b, h, w, n, ch, cw = 2, 7, 9, 5, 4, 3
    boxes = RNG.uniform(-0.2, 1.2, (n, 4)).astype(np.float32)
    ind = RNG.integers(0, b, n).astype(np.int32)
    for t in (np.float32, np.uint8, np.int64):
        x = image(b, h, w, 2, t=t)
        want = np.empty((n, ch, cw, 2))
        for i, (y1, x1, y2, x2) in enumerate(boxes.astype(np.float64)):
            ys = np.linspace(y1, y2, ch) * (h - 1)
            xs = np.linspace(x1, x2, cw) * (w - 1)
            grid = np.meshgrid(ys, xs, indexing="ij")
            want[i] = sampled(x[ind[i]], *grid)
            outside = (grid[0] < 0) | (grid[0] > h - 1) | (grid[1] < 0) | (grid[1] > w - 1)
            want[i][outside] = -7
        near(run("CropAndResize", [x, boxes, ind, np.int32([ch, cw])], extrapolation_value=-7.0), want, 2e-3)
    # The gradient by the image is the transpose: <crop(x), dy> = <x, grad(dy)>.
    x, dy = image(b, h, w, 2), image(n, ch, cw, 2)
    crops = run("CropAndResize", [x, boxes, ind, np.int32([ch, cw])])
    back = run("CropAndResizeGradImage", [dy, boxes, ind, np.int32([b, h, w, 2])], T=Type(np.float32))
    near(np.vdot(crops.astype(np.float64), dy) / 1e5, np.vdot(x.astype(np.float64), back) / 1e5, 1e-3)


@covers("ImageProjectiveTransformV2", "ImageProjectiveTransformV3")
def test_projective_transform_takes_what_scipy_does():
    b, h, w, oh, ow = 2, 6, 8, 5, 7
    a = (np.float32([1, 0, 0, 0, 1, 0, 0, 0]) + RNG.normal(0, 0.3, (b, 8)) * [1, 1, 4, 1, 1, 4, 0.05, 0.05]).astype(np.float32)
    x = image(b, h, w, 2)
    got = run("ImageProjectiveTransformV3", [x, a, np.int32([oh, ow]), np.float32(3)], interpolation="BILINEAR", fill_mode="NEAREST")
    for i in range(b):
        t, (ys, xs) = a[i].astype(np.float64), np.meshgrid(np.arange(oh), np.arange(ow), indexing="ij")
        k = t[6] * xs + t[7] * ys + 1
        from_x, from_y = (t[0] * xs + t[1] * ys + t[2]) / k, (t[3] * xs + t[4] * ys + t[5]) / k
        near(got[i], sampled(x[i], np.clip(from_y, 0, h - 1), np.clip(from_x, 0, w - 1), mode="nearest"), 5e-2)


@covers("ExtractImagePatches", "ExtractVolumePatches")
def test_patches_are_sliding_windows():
    k, s, rate = (int(v) for v in RNG.integers(1, 4, 3))
    x = image(2, 9, 11, 3)
    span = (k - 1) * rate + 1
    got = run("ExtractImagePatches", [x], ksizes=[1, k, k, 1], strides=[1, s, s, 1], rates=[1, rate, rate, 1], padding="VALID")
    want = sliding_window_view(x, (span, span), (1, 2))[:, ::s, ::s, :, ::rate, ::rate].transpose(0, 1, 2, 4, 5, 3)
    near(got, want.reshape(want.shape[:3] + (-1,)))
    v = image(1, 5, 6, 7, 2)
    got = run("ExtractVolumePatches", [v], ksizes=[1, k, k, k, 1], strides=[1, s, s, s, 1], padding="VALID")
    want = sliding_window_view(v, (k, k, k), (1, 2, 3))[:, ::s, ::s, ::s].transpose(0, 1, 2, 3, 5, 6, 7, 4)
    near(got, want.reshape(want.shape[:4] + (-1,)))


@covers("ExtractGlimpse", "ExtractGlimpseV2")
def test_glimpses_are_slices():
    x, y0, x0 = image(1, 9, 8, 2), int(RNG.integers(0, 5)), int(RNG.integers(0, 4))
    plain = {"centered": False, "normalized": False}
    got = run("ExtractGlimpseV2", [x, np.int32([3, 4]), np.float32([[y0, x0]])], **plain)
    near(got, x[:, y0:y0 + 3, x0:x0 + 4])
    got = run("ExtractGlimpse", [x, np.int32([2, 4]), np.float32([[y0 + 1, x0 + 2]])], **plain)
    near(got, x[:, y0:y0 + 2, x0:x0 + 4])


@covers("DrawBoundingBoxes", "DrawBoundingBoxesV2")
def test_boxes_are_frames():
    x, colors = image(1, 8, 10, 3), image(2, 3)
    box = np.float32([[[0.15, 0.2, 0.72, 0.8]]])
    want, (y1, y2), (x1, x2) = x.copy(), (1, 5), (1, 7)
    for color, name, more in ((np.float32([1, 1, 0]), "DrawBoundingBoxes", []), (colors[0], "DrawBoundingBoxesV2", [colors])):
        for part in (np.s_[0, y1, x1:x2 + 1], np.s_[0, y2, x1:x2 + 1], np.s_[0, y1:y2 + 1, x1], np.s_[0, y1:y2 + 1, x2]):
            want[part] = color
        near(run(name, [x, box] + more), want)


# ---- colors ----

@covers("RGBToHSV", "HSVToRGB")
def test_colors_are_those_of_colorsys():
    rgb = RNG.uniform(0, 1, (4, 5, 3))
    hsv = np.array([[colorsys.rgb_to_hsv(*p) for p in row] for row in rgb])
    for t, tolerance in ((np.float32, 1e-5), (np.float64, 1e-12), (np.float16, 5e-3)):
        near(run("HSVToRGB", [hsv.astype(t)]), rgb, tolerance * 10)
        if t != np.float16:
            near(run("RGBToHSV", [rgb.astype(t)]), hsv, tolerance)


@covers("AdjustHue", "AdjustSaturation", "AdjustContrastv2", "AdjustContrast")
def test_adjusted_colors_are_those_of_colorsys():
    rgb, by = RNG.uniform(0, 1, (1, 4, 5, 3)).astype(np.float32), float(RNG.uniform(-1, 1))
    hsv = [colorsys.rgb_to_hsv(*map(float, p)) for p in rgb.reshape(-1, 3)]
    turned = np.array([colorsys.hsv_to_rgb((h + by) % 1, s, v) for h, s, v in hsv]).reshape(rgb.shape)
    near(run("AdjustHue", [rgb, np.float32(by)]), turned, 1e-4)
    scaled = np.array([colorsys.hsv_to_rgb(h, min(1, s * abs(by) * 2), v) for h, s, v in hsv]).reshape(rgb.shape)
    near(run("AdjustSaturation", [rgb, np.float32(abs(by) * 2)]), scaled, 1e-4)
    mean = rgb.mean((1, 2), keepdims=True, dtype=np.float64)
    near(run("AdjustContrastv2", [rgb, np.float32(by)]), (rgb - mean) * by + mean, 1e-5)


# ---- boxes ----

def overlap(a, b):
    a, b = (np.array([min(v[0], v[2]), min(v[1], v[3]), max(v[0], v[2]), max(v[1], v[3])], np.float64) for v in (a, b))
    h, w = np.maximum(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]), 0)
    areas = [(v[2] - v[0]) * (v[3] - v[1]) for v in (a, b)]
    return h * w / (sum(areas) - h * w) if min(areas) > 0 else 0.0


def greedy(boxes, scores, limit, threshold, least=-np.inf):
    taken = []
    for i in sorted(range(len(scores)), key=lambda i: (-scores[i], i)):
        if scores[i] > least and len(taken) < limit and all(overlap(boxes[i], boxes[k]) <= threshold for k in taken):
            taken.append(i)
    return taken


@covers("NonMaxSuppression", "NonMaxSuppressionV2", "NonMaxSuppressionV3", "NonMaxSuppressionV4", "NonMaxSuppressionV5",
        "NonMaxSuppressionWithOverlaps", "CombinedNonMaxSuppression")
def test_suppression_compares_all_with_all():
    n, limit = int(RNG.integers(1, 40)), np.int32(RNG.integers(0, 20))
    corners = RNG.uniform(0, 1, (n, 2))
    boxes = np.concatenate([corners, corners + RNG.uniform(0.1, 0.5, (n, 2))], 1).astype(np.float32)
    scores, iou, least = RNG.uniform(0, 1, n).astype(np.float32), np.float32(0.3), np.float32(0.2)
    want = greedy(boxes, scores, limit, iou)
    assert list(run("NonMaxSuppression", [boxes, scores, limit], iou_threshold=0.3)) == want
    assert list(run("NonMaxSuppressionV2", [boxes, scores, limit, iou])) == want
    want = greedy(boxes, scores, limit, iou, least)
    assert list(run("NonMaxSuppressionV3", [boxes, scores, limit, iou, least])) == want
    got, valid = run("NonMaxSuppressionV4", [boxes, scores, limit, iou, least], 2, pad_to_max_output_size=True)
    assert list(got[:valid]) == want and valid == len(want) and len(got) == limit
    got, kept, valid = run("NonMaxSuppressionV5", [boxes, scores, limit, iou, least, np.float32(0)], 3)
    assert list(got) == want and list(kept) == [scores[i] for i in want]
    matrix = np.array([[overlap(a, b) for b in boxes] for a in boxes], np.float32)
    assert list(run("NonMaxSuppressionWithOverlaps", [matrix, scores, limit, iou, least])) == want
    per_class = RNG.uniform(0, 1, (1, n, 3)).astype(np.float32)
    _, kept, classes, valid = run("CombinedNonMaxSuppression", [boxes[None, :, None], per_class, np.int32(4), np.int32(6), iou, least], 4)
    best = sorted(((per_class[0, i, k], k) for k in range(3) for i in greedy(boxes, per_class[0, :, k], 4, iou, least)), reverse=True)[:6]
    assert valid[0] == len(best) and list(kept[0][:valid[0]]) == [s for s, _ in best]
    assert list(classes[0][:valid[0]]) == [k for _, k in best]


@covers("SampleDistortedBoundingBox", "SampleDistortedBoundingBoxV2", "StatelessSampleDistortedBoundingBox")
def test_sampled_boxes_keep_to_what_is_asked():
    size, box = np.int32([97, 120, 3]), np.float32([[[0.3, 0.2, 0.6, 0.7]]])
    asked = {"aspect_ratio_range": [0.5, 2.0], "area_range": [0.2, 0.6]}
    for seed in range(4):
        calls = (("SampleDistortedBoundingBox", [size, box], {"seed": seed + 1, "min_object_covered": 0.4}),
                 ("SampleDistortedBoundingBoxV2", [size, box, np.float32(0.4)], {"seed": seed + 1}),
                 ("StatelessSampleDistortedBoundingBox", [size, box, np.float32(0.4), np.int64([seed, 3])], {}))
        for name, inputs, attrs in calls:
            (y, x, _), (h, w, rest), corners = run(name, inputs, 3, **asked, **attrs)
            assert rest == -1 and 0 <= y and 0 <= x and y + h <= 97 and x + w <= 120
            if (h, w) != (97, 120):
                assert 0.19 < h * w / (97 * 120) < 0.61 and 0.47 < w / h < 2.1
                inside = max(0, min(y + h, 58) - max(y, 29)) * max(0, min(x + w, 84) - max(x, 24))
                assert inside >= 0.4 * 29 * 60 * 0.95
            near(corners, [[[y / 97, x / 120, (y + h) / 97, (x + w) / 120]]], 1e-6)


# ---- files ----

def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png_file(pixels, depth, kind):
    """Rows that are not filtered; samples of less than 8 bits are packed."""
    h, w = pixels.shape[:2]
    rows = b""
    for row in pixels.reshape(h, -1):
        if depth == 16:
            rows += b"\0" + row.astype(">u2").tobytes()
        elif depth == 8:
            rows += b"\0" + row.astype(np.uint8).tobytes()
        else:
            bits = ((row[:, None].astype(np.uint8) >> np.arange(depth - 1, -1, -1)) & 1).ravel().astype(np.uint8)
            rows += b"\0" + np.packbits(bits).tobytes()
    head = struct.pack(">IIBBBBB", w, h, depth, kind, 0, 0, 0)
    palette = chunk(b"PLTE", bytes(range(0, 48)) * 16) if kind == 3 and depth == 8 else \
        chunk(b"PLTE", bytes(range(0, 3 << depth))) if kind == 3 else b""
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + palette + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def scalar(data):
    return np.array(data, dtype=object)


@covers("DecodePng", "EncodePng", "DecodeImage")
def test_png_files_of_all_kinds_are_read():
    for kind, depths, samples in ((0, (1, 2, 4, 8, 16), 1), (2, (8, 16), 3), (3, (1, 2, 4, 8), 1), (4, (8, 16), 2), (6, (8, 16), 4)):
        for depth in depths:
            x = RNG.integers(0, 1 << depth, (5, 13, samples)).astype(np.uint16)
            file = png_file(x, depth, kind)
            if kind == 3:
                table = np.frombuffer(bytes(range(0, 48)) * 16 if depth == 8 else bytes(range(0, 3 << depth)), np.uint8).reshape(-1, 3)
                x8 = table[x[..., 0]]
            else:
                x8 = x >> 8 if depth == 16 else x * (255 // ((1 << depth) - 1))
            assert np.array_equal(run("DecodePng", [scalar(file)]), x8.astype(np.uint8))
            x16 = x if depth == 16 else x8.astype(np.uint16) * 257
            assert np.array_equal(run("DecodePng", [scalar(file)], dtype=Type(np.uint16)), x16)
            near(run("DecodeImage", [scalar(file)], dtype=Type(np.float32)), x16 / 65535, 1e-6)
    for t in (np.uint8, np.uint16):
        x = RNG.integers(0, np.iinfo(t).max, (7, 11, 4)).astype(t)
        file = run("EncodePng", [x], compression=int(RNG.integers(-1, 10)))
        assert np.array_equal(run("DecodePng", [file], dtype=Type(t)), x)


@covers("DecodeBmp")
def test_bmp_files_are_read():
    for samples in (1, 3, 4):
        x = RNG.integers(0, 256, (5, 7, samples)).astype(np.uint8)
        stored = x if samples == 1 else x[..., [2, 1, 0] + ([3] if samples == 4 else [])]
        pad = bytes(-7 * samples % 4)
        for down in (False, True):
            rows = b"".join(r.tobytes() + pad for r in (stored if down else stored[::-1]))
            head = b"BM" + struct.pack("<IIIIiiHH", 0, 0, 54, 40, 7, -5 if down else 5, 1, 8 * samples) + bytes(24)
            assert np.array_equal(run("DecodeBmp", [scalar(head + rows)]), x)


@covers("DecodeJpeg", "EncodeJpeg", "ExtractJpegShape", "DecodeAndCropJpeg", "EncodeJpegVariableQuality")
def test_jpeg_files_are_nearly_what_was_written():
    ys, xs = np.mgrid[0:37, 0:53]
    x = np.stack([4 * ys + xs, 255 - 3 * xs, 100 + ys], -1).clip(0, 255).astype(np.uint8)
    for attrs in ({}, {"progressive": True}, {"optimize_size": True, "chroma_downsampling": False}):
        file = run("EncodeJpeg", [x], quality=97, **attrs)
        y = run("DecodeJpeg", [file], dct_method="INTEGER_ACCURATE").astype(int)
        assert np.mean(np.abs(y - x)) < 3 and y.shape == x.shape
        assert list(run("ExtractJpegShape", [file])) == [37, 53, 3]
        part = run("DecodeAndCropJpeg", [file, np.int32([5, 11, 20, 30])], dct_method="INTEGER_ACCURATE").astype(int)
        assert np.mean(np.abs(part - x[5:25, 11:41])) < 4
        assert run("DecodeJpeg", [file], ratio=4).shape == (10, 14, 3)
    small, large = (run("EncodeJpegVariableQuality", [x, np.int32(q)]).item() for q in (10, 95))
    assert len(small) < len(large)


# ---- sounds ----

@covers("DecodeWav", "EncodeWav")
def test_wav_files_are_those_of_the_wave_module():
    samples, channels, rate = RNG.integers(-32768, 32768, (50, 2)).astype("<i2"), 2, int(RNG.integers(1, 48000))
    out = io.BytesIO()
    with wave.open(out, "wb") as f:
        f.setparams((channels, 2, rate, len(samples), "NONE", ""))
        f.writeframes(samples.tobytes())
    audio, got_rate = run("DecodeWav", [scalar(out.getvalue())], 2)
    assert got_rate == rate and np.array_equal(audio, samples / np.float32(32768))
    assert run("EncodeWav", [audio, np.int32(rate)]).item() == out.getvalue()


def spectrogram(x, window, stride):
    n = 1 << max(window - 1, 1).bit_length() if window > 1 else 1
    bell = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(window) / window)
    views = sliding_window_view(x.astype(np.float64), window, 0)[::stride]
    return np.abs(np.fft.rfft(views * bell, n)).transpose(1, 0, 2)


@covers("AudioSpectrogram")
def test_spectrograms_are_those_of_numpy():
    window, stride = int(RNG.integers(2, 40)), int(RNG.integers(1, 10))
    x = RNG.normal(0, 1, (100, 2)).astype(np.float32)
    want = spectrogram(x, window, stride)
    near(run("AudioSpectrogram", [x], window_size=window, stride=stride), want, 1e-4)
    near(run("AudioSpectrogram", [x], window_size=window, stride=stride, magnitude_squared=True), want ** 2, 1e-4)


@covers("Mfcc")
def test_mfcc_is_two_matrices_and_a_logarithm():
    bins, rate, bands, kept, low, high = 129, 16000, 20, 9, 60.0, 5000.0
    x = RNG.uniform(0.1, 9, (1, 3, bins)).astype(np.float32)
    mel = lambda f: 1127 * np.log1p(f / 700)
    centers = np.linspace(mel(low), mel(high), bands + 2)
    hz = np.arange(bins) * rate / 2 / (bins - 1)
    bank = np.stack([np.interp(mel(hz), centers, np.eye(bands + 2)[k + 1]) for k in range(bands)])
    used = (np.arange(bins) >= int(1.5 + low / hz[1])) & (np.arange(bins) <= int(high / hz[1]))
    logs = np.log(np.maximum(np.sqrt(x.astype(np.float64)) @ (bank * used).T, 1e-12))
    k = np.arange(bands)
    dct = np.sqrt(2 / bands) * np.cos(np.arange(kept)[:, None] * np.pi / bands * (k + 0.5))
    got = run("Mfcc", [x, np.int32(rate)], upper_frequency_limit=high, lower_frequency_limit=low, filterbank_channel_count=bands,
              dct_coefficient_count=kept)
    near(got, logs @ dct.T, 1e-4)
