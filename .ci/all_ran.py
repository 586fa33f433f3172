"""Exit 1 unless pytest's JUnit file names tests and none was skipped: `python all_ran.py FILE`."""

import sys
import xml.etree.ElementTree as ET

cases = list(ET.parse(sys.argv[1]).iter("testcase"))
skipped = [
    f"{case.get('classname')}.{case.get('name')}: {reason.get('message')}"
    for case in cases
    for reason in case.iter("skipped")
]
print(f"{len(cases)} tests in {sys.argv[1]}, {len(skipped)} of them skipped", *skipped, sep="\n  ")
sys.exit(not cases or bool(skipped))
