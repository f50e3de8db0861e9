"""tests/oracle/quant.py -- quantizing and going back, step by step in float as the definitions say."""
import numpy as np

from graph import QUANTIZED, Graph, Type
from table import covers

RNG = np.random.default_rng(1)
F = np.float32
CODES = {"qint8": (-128, 127), "quint8": (0, 255), "qint16": (-32768, 32767), "quint16": (0, 65535)}


def evaluate(name, inputs, outputs=1, **attrs):
    g = Graph()
    y = g.op(name, inputs, **attrs)
    got = g.run([y[i] for i in range(outputs)])
    g.close()
    return got


def away(x):
    return np.sign(x) * np.floor(np.abs(x) + F(0.5))


def some(n=60):
    return (RNG.standard_normal(n) * RNG.choice([0.1, 1, 30])).astype(F)


def some_range():
    lo, hi = sorted(RNG.standard_normal(2) * RNG.choice([1, 10]))
    return F(lo), F(hi)


def widened(lo, hi, least=F(0.01)):
    largest = max(F(1), abs(lo), abs(hi))
    lo = min(F(0), lo)
    return lo, max(F(0), max(hi, F(lo + largest * least)))


@covers("QuantizeV2", "Dequantize")
def test_codes_stand_for_what_they_came_from():
    """There and back is within a step, whatever the mode, and codes are in order."""
    for name, (low, high) in CODES.items():
        for mode in ("MIN_COMBINED", "MIN_FIRST", "SCALED"):
            x, (lo, hi) = np.sort(some()), some_range()
            codes, qlo, qhi = evaluate("QuantizeV2", [x, lo, hi], 3, T=Type(QUANTIZED[name]), mode=mode)
            back, = evaluate("Dequantize", [codes, qlo, qhi], mode=mode)
            assert np.all(np.diff(codes[name].astype(int)) >= 0)
            step = (qhi - qlo) / (high - low)
            inside = (x >= qlo) & (x <= qhi)
            assert np.all(np.abs(back - x)[inside] <= step * 1.01 + 1e-6), (name, mode)


@covers("QuantizeV2")
def test_min_combined_is_its_formula():
    x, (lo, hi) = some(), some_range()
    wlo, whi = widened(lo, hi)
    codes, qlo, qhi = evaluate("QuantizeV2", [x, lo, hi], 3, T=Type(QUANTIZED["quint8"]))
    assert qlo == wlo and qhi == whi
    scale = F(255.0 / float(F(whi - wlo)))
    want = np.floor((np.clip(x, wlo, whi) - wlo) * scale + F(0.5))
    assert np.array_equal(codes["quint8"], np.clip(want, 0, 255).astype(np.uint8))


@covers("QuantizeV2")
def test_scaled_is_its_formula():
    x, (lo, hi) = some(), some_range()
    for narrow in (False, True):
        wlo, whi = widened(lo, hi)
        low = F(-127 if narrow else -128)
        a = low / wlo if low * wlo > 0 else np.finfo(F).max
        b = F(127) / whi if whi > 0 else np.finfo(F).max
        scale = min(F(a), F(b))
        codes, qlo, qhi = evaluate("QuantizeV2", [x, lo, hi], 3, T=Type(QUANTIZED["qint8"]), mode="SCALED",
                                   round_mode="HALF_TO_EVEN", narrow_range=narrow)
        assert qlo == F(low / scale) and qhi == F(F(127) / scale)
        want = np.rint(np.clip(x, qlo, qhi) * scale)
        assert np.array_equal(codes["qint8"], np.clip(want, low, 127).astype(np.int8))


@covers("QuantizeV2", "Dequantize")
def test_slices_are_quantized_by_themselves():
    x = some(24).reshape(2, 3, 4)
    lo, hi = -np.abs(RNG.standard_normal(3)).astype(F), np.abs(RNG.standard_normal(3)).astype(F)
    codes, qlo, qhi = evaluate("QuantizeV2", [x, lo, hi], 3, T=Type(QUANTIZED["qint8"]), mode="SCALED", axis=1)
    back, = evaluate("Dequantize", [codes, qlo, qhi], mode="SCALED", axis=1)
    for i in range(3):
        one, olo, ohi = evaluate("QuantizeV2", [x[:, i], lo[i], hi[i]], 3, T=Type(QUANTIZED["qint8"]), mode="SCALED")
        assert np.array_equal(codes[:, i], one) and qlo[i] == olo and qhi[i] == ohi
        assert np.array_equal(back[:, i], evaluate("Dequantize", [one, olo, ohi], mode="SCALED")[0])


def nudged(lo, hi, bits, narrow):
    low, high = F(narrow), F(2 ** bits - 1)
    scale = F((hi - lo) / (high - low))
    zero = low - F(lo / scale)
    zero = low if zero < low else high if zero > high else away(zero)
    return F((low - zero) * scale), F((high - zero) * scale), scale


def fake(x, lo, hi, bits, narrow):
    if lo == 0 and hi == 0:
        return np.zeros_like(x)
    nlo, nhi, scale = nudged(lo, hi, bits, narrow)
    zero = np.floor(F(-nlo / scale) + F(0.5))
    return np.floor((np.clip(x, nlo, nhi) - nlo) / scale - zero + F(0.5)) * scale


@covers("FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxArgs", "FakeQuantWithMinMaxVarsPerChannel")
def test_fake_quantization_is_its_formula():
    bits, narrow = int(RNG.integers(2, 17)), bool(RNG.integers(2))
    lo, hi = -F(abs(RNG.standard_normal())) - F(0.01), F(abs(RNG.standard_normal())) + F(0.01)
    x = some()
    got, = evaluate("FakeQuantWithMinMaxVars", [x, lo, hi], num_bits=bits, narrow_range=narrow)
    assert np.allclose(got, fake(x, lo, hi, bits, narrow), rtol=1e-6, atol=1e-6)
    args, = evaluate("FakeQuantWithMinMaxArgs", [x], min=float(lo), max=float(hi), num_bits=bits, narrow_range=narrow)
    step = nudged(lo, hi, bits, narrow)[2]
    assert np.all(np.abs(args - got) <= step * 1.01)  # it multiplies where the other divides
    los, his = -np.abs(RNG.standard_normal(3)).astype(F), np.abs(RNG.standard_normal(3)).astype(F)
    los[2] = his[2] = 0
    x = x.reshape(-1, 3)
    got, = evaluate("FakeQuantWithMinMaxVarsPerChannel", [x, los, his], num_bits=bits, narrow_range=narrow)
    want = np.stack([fake(x[:, i], los[i], his[i], bits, narrow) for i in range(3)], 1)
    assert np.allclose(got, want, rtol=1e-6, atol=1e-6)


@covers("FakeQuantWithMinMaxVarsGradient", "FakeQuantWithMinMaxArgsGradient", "FakeQuantWithMinMaxVarsPerChannelGradient")
def test_gradients_of_fake_quantization_pass_inside_and_gather_outside():
    lo, hi = F(-0.7), F(0.9)
    x, d = some(), some()
    nlo, nhi, _ = nudged(lo, hi, 8, False)
    inside = (x >= nlo) & (x <= nhi)
    dx, dlo, dhi = evaluate("FakeQuantWithMinMaxVarsGradient", [d, x, lo, hi], 3)
    assert np.array_equal(dx, d * inside)
    assert np.isclose(dlo, d[x < nlo].sum(), atol=1e-4) and np.isclose(dhi, d[x > nhi].sum(), atol=1e-4)
    assert np.array_equal(evaluate("FakeQuantWithMinMaxArgsGradient", [d, x], min=float(lo), max=float(hi))[0], dx)
    per = evaluate("FakeQuantWithMinMaxVarsPerChannelGradient", [d.reshape(-1, 1), x.reshape(-1, 1), lo[None], hi[None]], 3)
    assert np.array_equal(per[0][:, 0], dx) and np.isclose(per[1][0], dlo) and np.isclose(per[2][0], dhi)


def round_trip(x, lo, hi, bits, signed, narrow, given, half_up):
    t = x.dtype.type
    low = -2 ** (bits - 1) + narrow if signed else 0
    high = 2 ** (bits - 1) - 1 if signed else 2 ** bits - 1
    most = np.finfo(t).max
    a = t(low) / lo if low * lo > 0 else most
    b = t(high) / hi if high * hi > 0 else most
    if a < b:
        scale, inverse = a, lo / t(low)
        hi = t(high) * inverse
    else:
        scale, inverse = b, hi / t(high)
        lo = t(low) * inverse
    y = (np.clip(x, lo, hi) if given else x) * t(scale)
    return (np.floor(y + t(0.5)) if half_up else np.rint(y)) * t(inverse)


@covers("QuantizeAndDequantizeV2", "QuantizeAndDequantizeV3", "QuantizeAndDequantizeV4")
def test_round_trips_are_their_formula():
    for t in (np.float32, np.float64):
        bits, signed, narrow, given = int(RNG.integers(2, 12)), bool(RNG.integers(2)), bool(RNG.integers(2)), bool(RNG.integers(2))
        half_up = bool(RNG.integers(2))
        x = some().astype(t)
        lo, hi = (t(-abs(RNG.standard_normal())), t(abs(RNG.standard_normal()))) if given else (x.min(), x.max())
        mode = "HALF_UP" if half_up else "HALF_TO_EVEN"
        want = round_trip(x, lo, hi, bits, signed, narrow, given, half_up)
        for name in ("QuantizeAndDequantizeV2", "QuantizeAndDequantizeV4"):
            got, = evaluate(name, [x, lo, hi], num_bits=bits, signed_input=signed, narrow_range=narrow, range_given=given,
                            round_mode=mode)
            assert np.array_equal(got, want)
        if not half_up:
            got, = evaluate("QuantizeAndDequantizeV3", [x, lo, hi, np.int32(bits)], signed_input=signed, narrow_range=narrow,
                            range_given=given)
            assert np.array_equal(got, want)


@covers("QuantizeAndDequantizeV4Grad")
def test_gradient_of_a_round_trip_passes_inside():
    x, d = some(24).reshape(2, 3, 4), some(24).reshape(2, 3, 4)
    lo, hi = -np.abs(RNG.standard_normal(3)).astype(F), np.abs(RNG.standard_normal(3)).astype(F)
    dx, dlo, dhi = evaluate("QuantizeAndDequantizeV4Grad", [d, x, lo, hi], 3, axis=1)
    inside = (x >= lo[:, None]) & (x <= hi[:, None])
    assert np.array_equal(dx, np.where(inside, d, 0)) and not dlo.any() and not dhi.any()
