from toposcope.agent.nvml.board import Board


def test_the_last_step_is_what_stands_there() -> None:
    board = Board.new()
    assert board.read() == (0, "")
    board.write("nvmlInit")
    board.write("sysfs")
    assert board.read() == (2, "sysfs")


def test_the_same_step_again_is_another_one() -> None:
    board = Board.new()
    board.write("GPU 1")
    before = board.read()
    board.write("GPU 1")
    assert board.read() != before


def test_a_long_step_is_cut() -> None:
    board = Board.new()
    board.write("ä" * 5000)
    assert len(board.read()[1].encode()) <= 4096 + 2
