"""Whitening against its definition, in double precision."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from trimtab.linalg.spectral import symmetric_eigh, thin_svd
from trimtab.linalg.whitening import Root, damp, gram_root, low_rank_factors

FLOOR = 1e-12


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def skewed_inputs(tokens: int, width: int) -> Tensor:
    """Inputs whose directions differ a lot in energy."""
    return random(tokens, width, seed=1) @ random(width, width, seed=2) * torch.logspace(0, -3, width).double()


@pytest.mark.parametrize(("outputs", "inputs"), [(12, 20), (20, 12), (16, 16)])
def test_dropped_energy_is_the_exact_mean_squared_output_error_at_every_rank(outputs: int, inputs: int) -> None:
    w_OI, x_TI = random(outputs, inputs), skewed_inputs(100, inputs)
    root = gram_root(x_TI.T @ x_TI / 100, floor=FLOOR)
    u_RO, v_RI, energy_K = low_rank_factors(w_OI, left=None, right=root, max_rank=min(outputs, inputs))
    for rank in range(min(outputs, inputs) + 1):
        error_TO = x_TI @ (w_OI - u_RO[:rank].T @ v_RI[:rank]).T
        assert float(error_TO.square().sum()) / 100 == pytest.approx(float(energy_K[rank:].sum()), rel=1e-6, abs=1e-12)
    assert torch.allclose(u_RO.T @ v_RI, w_OI)


@pytest.mark.parametrize("rank", [1, 4, 9])
def test_no_other_matrix_of_that_rank_has_a_smaller_output_error(rank: int) -> None:
    w_OI, x_TI = random(14, 18), skewed_inputs(200, 18)
    gram_II = x_TI.T @ x_TI / 200
    u_RO, v_RI, _ = low_rank_factors(w_OI, left=None, right=gram_root(gram_II, floor=FLOOR), max_rank=rank)

    def error(u: Tensor, v: Tensor) -> float:
        d_OI = w_OI - u.T @ v
        return float((d_OI @ gram_II * d_OI).sum())

    best = error(u_RO, v_RI)
    for seed in range(50):
        near = u_RO + 1e-3 * random(*u_RO.shape, seed=seed), v_RI + 1e-3 * random(*v_RI.shape, seed=seed + 99)
        assert error(*near) >= best
    u_plain, v_plain, _ = low_rank_factors(w_OI, left=None, right=None, max_rank=rank)
    assert error(u_plain, v_plain) > best
    scale_I = gram_II.diagonal().sqrt()
    asvd = Root(torch.diag(scale_I), torch.diag(1 / scale_I))
    u_asvd, v_asvd, _ = low_rank_factors(w_OI, left=None, right=asvd, max_rank=rank)
    assert error(u_asvd, v_asvd) > best


def test_two_sided_energy_is_the_error_in_both_metrics() -> None:
    w_OI, x_TI, g_TO = random(12, 10), skewed_inputs(80, 10), skewed_inputs(80, 12)
    c_II, g_OO = x_TI.T @ x_TI / 80, damp(g_TO.T @ g_TO / 80, 0.1)
    left, right = gram_root(g_OO, floor=FLOOR), gram_root(c_II, floor=FLOOR)
    u_RO, v_RI, energy_K = low_rank_factors(w_OI, left=left, right=right, max_rank=10)
    for rank in (0, 3, 7, 10):
        d_OI = w_OI - u_RO[:rank].T @ v_RI[:rank]
        error = float(torch.trace(g_OO @ d_OI @ c_II @ d_OI.T))
        assert error == pytest.approx(float(energy_K[rank:].sum()), rel=1e-6, abs=1e-10)


@pytest.mark.parametrize("scale", [1e-20, 1.0, 1e20])
def test_a_rank_one_gram_of_any_size_gives_finite_factors_and_no_error_on_its_inputs(scale: float) -> None:
    w_OI, x_I = random(8, 12).float(), random(12).float() * scale**0.5
    root = gram_root(torch.outer(x_I, x_I), floor=1e-8)
    u_RO, v_RI, energy_K = low_rank_factors(w_OI, left=None, right=root, max_rank=1)
    assert all(torch.isfinite(each).all() for each in (u_RO, v_RI, energy_K))
    assert torch.allclose(u_RO.T @ (v_RI @ x_I), w_OI @ x_I, rtol=1e-2, atol=1e-3 * float((w_OI @ x_I).abs().max()))


def test_a_gram_of_zeros_leaves_the_plain_svd() -> None:
    w_OI = random(8, 12)
    root = gram_root(torch.zeros(12, 12).double(), floor=1e-8)
    whitened, plain = (low_rank_factors(w_OI, left=None, right=each, max_rank=5) for each in (root, None))
    assert torch.allclose(whitened[0].T @ whitened[1], plain[0].T @ plain[1])


def test_small_negative_eigenvalues_are_raised_to_the_floor() -> None:
    gram_NN = torch.diag(torch.tensor([1.0, 1e-3, -1e-9], dtype=torch.float64))
    root = gram_root(gram_NN, floor=1e-6)
    again_NN = root.root_NN @ root.root_NN.T
    assert torch.allclose(again_NN.diagonal(), torch.tensor([1.0, 1e-3, 1e-6], dtype=torch.float64), rtol=1e-9)
    assert torch.allclose(root.root_NN @ root.inverse_NN, torch.eye(3).double())


def test_damping_keeps_the_trace_and_full_damping_forgets_directions() -> None:
    gram_NN = skewed_inputs(30, 6).T @ skewed_inputs(30, 6)
    assert damp(gram_NN, 0.3).trace() == pytest.approx(float(gram_NN.trace()))
    assert torch.allclose(damp(gram_NN, 1.0), torch.eye(6).double() * gram_NN.diagonal().mean())
    assert torch.equal(damp(gram_NN, 0.0), gram_NN)


def fail(*_arguments: object, **_options: object) -> None:
    raise torch.linalg.LinAlgError("did not converge")


def test_where_the_fast_routines_do_not_converge_the_safe_ones_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    a_MN = random(9, 6).float()
    gram_NN = a_MN.T @ a_MN
    expected_s, expected_values = torch.linalg.svdvals(a_MN), torch.linalg.eigvalsh(gram_NN)
    monkeypatch.setattr(torch.linalg, "svd", fail)
    monkeypatch.setattr(torch.linalg, "eigh", fail)
    u_MK, s_K, vt_KN = thin_svd(a_MN)
    values_N, vectors_NN = symmetric_eigh(gram_NN)
    assert torch.allclose(s_K, expected_s, atol=1e-5)
    assert torch.allclose(u_MK * s_K @ vt_KN, a_MN, atol=1e-5)
    assert torch.allclose(values_N, expected_values, atol=1e-4)
    assert torch.allclose(vectors_NN * values_N @ vectors_NN.T, gram_NN, atol=1e-4)


@pytest.mark.parametrize("rank", [1, 4, 9])
def test_no_other_matrix_of_that_rank_is_better_in_the_two_sided_metric(rank: int) -> None:
    w_OI, x_TI, g_TO = random(14, 18), skewed_inputs(200, 18), skewed_inputs(200, 14)
    c_II, g_OO = x_TI.T @ x_TI / 200, g_TO.T @ g_TO / 200
    left, right = gram_root(g_OO, floor=FLOOR), gram_root(c_II, floor=FLOOR)
    u_RO, v_RI, _ = low_rank_factors(w_OI, left=left, right=right, max_rank=rank)

    def error(u: Tensor, v: Tensor) -> float:
        d_OI = w_OI - u.T @ v
        return float(torch.trace(g_OO @ d_OI @ c_II @ d_OI.T))

    best = error(u_RO, v_RI)
    for seed in range(50):
        near = u_RO + 1e-3 * random(*u_RO.shape, seed=seed), v_RI + 1e-3 * random(*v_RI.shape, seed=seed + 99)
        assert error(*near) >= best
    for some_left, some_right in ((None, None), (None, right), (left, None)):
        other_u, other_v, _ = low_rank_factors(w_OI, left=some_left, right=some_right, max_rank=rank)
        assert error(other_u, other_v) > best


@pytest.mark.parametrize("output_scale", [1e-20, 1.0, 1e20])
@pytest.mark.parametrize("input_scale", [1e-20, 1.0, 1e20])
def test_the_size_of_the_grams_changes_the_energies_and_not_the_approximation(
    output_scale: float, input_scale: float
) -> None:
    """In fp32, in which the energies themselves (1e-40 to 1e40) cannot be written."""
    w_OI, x_TI, g_TO = random(12, 10).float(), skewed_inputs(80, 10).float(), random(80, 12).float()
    c_II, g_OO = x_TI.T @ x_TI / 80, g_TO.T @ g_TO / 80

    def factors(of_outputs: float, of_inputs: float) -> tuple[Tensor, Tensor]:
        left, right = gram_root(g_OO * of_outputs, floor=1e-8), gram_root(c_II * of_inputs, floor=1e-8)
        u_RO, v_RI, energy_K = low_rank_factors(w_OI, left=left, right=right, max_rank=5)
        return u_RO.T @ v_RI, energy_K

    plain_OI, plain_K = factors(1.0, 1.0)
    scaled_OI, scaled_K = factors(output_scale, input_scale)
    assert torch.allclose(scaled_OI, plain_OI, atol=1e-3)
    assert torch.allclose(scaled_K / output_scale / input_scale, plain_K, rtol=1e-2, atol=1e-5 * float(plain_K[0]))


@pytest.mark.parametrize("silent_side", ["left", "right"])
def test_in_the_metric_of_a_gram_of_zeros_nothing_is_lost(silent_side: str) -> None:
    silent, heard = gram_root(torch.zeros(9, 9).double(), floor=1e-8), gram_root(damp(random(9, 9), 1.0), floor=1e-8)
    roots = {"left": heard, "right": heard, silent_side: silent}
    u_RO, v_RI, energy_K = low_rank_factors(random(9, 9), left=roots["left"], right=roots["right"], max_rank=9)
    assert not energy_K.any()
    assert torch.allclose(u_RO.T @ v_RI, random(9, 9))
