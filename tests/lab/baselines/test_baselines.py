import subprocess
import sys

from reticent.mechanisms import baselines


def test_the_names_are_complete_and_each_is_documented():
    assert baselines.__all__ == sorted(baselines.__all__, key=lambda name: (not name.isupper(), name))
    for name in baselines.__all__:
        assert len(getattr(baselines, name).__doc__) > 200


def test_the_standard_library_is_enough():
    code = "import sys, reticent.lab.baselines; print(sorted({'numpy', 'scipy'} & set(sys.modules)))"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        == "[]\n"
    )


def test_a_device_never_loads_them():
    code = "import sys, reticent.mechanisms; print('reticent.lab.baselines' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        == "False\n"
    )
