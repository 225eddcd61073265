"""Square roots of Gram matrices, and the best low-rank approximation in the metric that they define.

Legend: O output width, I input width, R rank, N size of a Gram.

For a metric |D|^2 = trace(G D C D^T) with symmetric positive G_OO and C_II, the best rank-R approximation of W
is found by a singular value decomposition of A W B, where G = A^T A and C = B B^T:
A W B = U diag(s) V^T, and W ~ (A^-1 U_R s_R^1/2) (s_R^1/2 V_R^T B^-1). The dropped s^2 add up to the error.
(Eckart-Young; the one-sided case is the whitening of SVD-LLM, ICLR 2025, in its eigenvalue form.)
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from trimtab.linalg.spectral import symmetric_eigh, thin_svd


@dataclass(frozen=True)
class Root:
    """A square root of a Gram matrix: `root_NN` @ `root_NN`^T = Gram (clamped), with its inverse.

    `silent`: the Gram was all zero, so that no error counts in its metric; the root is the identity.
    """

    root_NN: Tensor
    inverse_NN: Tensor
    silent: bool = False


def gram_root(gram_NN: Tensor, *, floor: float) -> Root:
    """Return B = Q l^1/2 and its inverse l^-1/2 Q^T, for a Gram Q diag(l) Q^T.

    Eigenvalues below `floor` times the largest are raised to it: a singular or rank-one Gram, and one with small
    negative eigenvalues from rounding, is as good as any other. An all-zero Gram (the projection never saw a
    token) gives the identity, so that the plain SVD of the weight is what remains.
    """
    values_N, vectors_NN = symmetric_eigh(gram_NN)
    largest = values_N[-1]
    if not largest > 0:
        identity_NN = torch.eye(len(values_N), dtype=gram_NN.dtype, device=gram_NN.device)
        return Root(identity_NN, identity_NN, silent=True)
    scale_N = values_N.clamp_min(largest * floor).sqrt()
    return Root(vectors_NN * scale_N, (vectors_NN / scale_N).T)


def damp(gram_NN: Tensor, share: float) -> Tensor:
    """Return (1 - share) * Gram + share * mean(diagonal) * identity: a Gram shrunk towards its mean."""
    mean = gram_NN.diagonal().mean()
    damped_NN = gram_NN * (1 - share)
    damped_NN.diagonal().add_(mean * share)
    return damped_NN


def low_rank_factors(
    w_OI: Tensor, *, left: Root | None, right: Root | None, max_rank: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return nested factors u_RO, v_RI (R = `max_rank`) and all min(O, I) squared singular values, descending.

    W ~ u_RO[:r].T @ v_RI[:r] is optimal for every r <= R in the metric of the two roots (None: the identity).
    The singular values are divided evenly between the two factors. Their squares are in double precision: the
    product of two Grams leaves the range of fp32 long before its root does. They are zero where a root is silent.
    """
    a_OI = w_OI
    if left is not None:
        a_OI = left.root_NN.T @ a_OI
    if right is not None:
        a_OI = a_OI @ right.root_NN
    u_OK, s_K, vt_KI = thin_svd(a_OI)
    split_R = s_K[:max_rank].sqrt()
    u_RO = (u_OK[:, :max_rank] * split_R).T
    v_RI = vt_KI[:max_rank] * split_R[:, None]
    if left is not None:
        u_RO = u_RO @ left.inverse_NN
    if right is not None:
        v_RI = v_RI @ right.inverse_NN
    silent = any(root is not None and root.silent for root in (left, right))
    energy_K = torch.zeros_like(s_K) if silent else s_K
    return u_RO.contiguous(), v_RI.contiguous(), energy_K.double().square()
