"""The tasks of a demo that stays are plain functions too."""

from holdfast.demo.life_tasks import build_report, resize_image


async def test_they_do_what_they_say() -> None:
    assert await resize_image("product-1.jpg") == "product-1-640.webp"
    assert await build_report("2026-11-14") == "report of 2026-11-14"
