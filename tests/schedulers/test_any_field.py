"""No confident verdict is wrong, whatever field of the lists is set."""

from pathlib import Path

import pytest
from tests.schedulers import admission, any_field, play, pod_rules
from tests.schedulers.drawing import Drawing
from tests.support.api import ApiUnderTest


def test_every_listed_field_of_a_pod_is_drawn_or_left_out_for_a_reason() -> None:
    known = {*any_field.VALUES, *any_field.DRAWN_ELSEWHERE, *any_field.LEFT_OUT}
    listed = {field.path for field in any_field.listed_fields()}
    assert listed - known == set(), "give it values in any_field.py"
    assert known - listed == set(), "no list has it any more"


@pytest.mark.slow
def test_check_agrees_with_kube_scheduler_about_any_field(kube_scheduler: ApiUnderTest, folder: Path) -> None:
    around = admission.around()
    play.create(kube_scheduler, around)
    jobs = Drawing(
        workload=any_field.job,
        prefix="any",
        ask=play.on_api_server_and_scheduler,
        cluster=pod_rules.ruled_cluster,
        around=around,
    )
    jobs.assert_check_agrees(kube_scheduler, folder, cases=40)
