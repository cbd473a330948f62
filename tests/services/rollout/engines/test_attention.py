import torch

from headrace.services.rollout.engines.decoding.attention import attend, attend_plainly


def test_the_fused_kernel_and_plain_products_agree() -> None:
    draws = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(3, 2, n, 8, generator=draws, dtype=torch.float64) for n in (4, 6, 6))
    mask = torch.zeros(3, 1, 1, 6, dtype=torch.float64)
    mask[1, ..., 4:] = torch.finfo(torch.float64).min
    for fused, plain in zip(
        attend(query, key, value, mask, 0.3), attend_plainly(query, key, value, mask, 0.3), strict=True
    ):
        torch.testing.assert_close(fused, plain, rtol=0.0, atol=1e-12)
