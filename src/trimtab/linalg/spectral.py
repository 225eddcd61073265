"""Eigenvalues and singular values that do not fail.

Legend: N size of a symmetric matrix; M, N sides of a matrix; K = min(M, N).
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
import torch
from torch import Tensor


def symmetric_eigh(a_NN: Tensor) -> tuple[Tensor, Tensor]:
    """Return eigenvalues (ascending, [N]) and eigenvectors (columns, [N, N]) of a symmetric matrix.

    Works in the precision of `a_NN`. The matrix is scaled to a mean diagonal of one first, so that very small
    or very large Grams neither underflow nor overflow. If the fast LAPACK routine does not converge, the slower
    and safer one is used in double precision.
    """
    scale = a_NN.diagonal().abs().mean()
    if scale == 0:
        return torch.zeros_like(a_NN.diagonal()), torch.eye(len(a_NN), dtype=a_NN.dtype, device=a_NN.device)
    scaled_NN = a_NN / scale
    try:
        values_N, vectors_NN = torch.linalg.eigh(scaled_NN)
    except torch.linalg.LinAlgError:
        values, vectors = scipy.linalg.eigh(_to_numpy(scaled_NN), driver="ev")
        values_N, vectors_NN = _like(values, a_NN), _like(vectors, a_NN)
    return values_N * scale, vectors_NN


def thin_svd(a_MN: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return U [M, K], s [K] (descending) and V^T [K, N] with a = U diag(s) V^T.

    If the divide-and-conquer routine does not converge (ill-conditioned input is the usual cause), the QR
    iteration of LAPACK is used in double precision.
    """
    try:
        return torch.linalg.svd(a_MN, full_matrices=False)
    except torch.linalg.LinAlgError:
        u, s, vt = scipy.linalg.svd(_to_numpy(a_MN), full_matrices=False, lapack_driver="gesvd")
        return _like(u, a_MN), _like(s, a_MN), _like(vt, a_MN)


def _to_numpy(a: Tensor) -> np.ndarray:
    return a.detach().cpu().double().numpy()


def _like(a: np.ndarray, other: Tensor) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(a)).to(other.device, other.dtype)
