#!/usr/bin/env bash
# Counts the instructions of each case by callgrind, and fails where one takes over 5 % more than the baseline.
#
#     benches/instructions.sh            compares
#     benches/instructions.sh --update   writes the baseline
#
# A count depends on the compiler, so the baseline names the one that it was made with. The exit code is 77 where
# nothing can be said: without valgrind, or with another compiler.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
BASELINE=$PWD/benches/instructions.txt
LIMIT=105
compiler=$(rustc --version | cut -d' ' -f2 | cut -d. -f1,2)-$(uname -m)

command -v valgrind >/dev/null || { echo "valgrind is missing"; exit 77; }
if [[ ${1-} != --update ]]; then
    made_with=$(sed -n 's/^# //p' "$BASELINE")
    [[ "$made_with" == "$compiler" ]] || { echo "the baseline is of $made_with, this is $compiler"; exit 77; }
fi

cargo build --release --quiet -p informer-benches --bin instructions
# The length of the program's path changes the heap, and with it the count.
cd "${CARGO_TARGET_DIR:-target}/release"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

counts=$work/counts
for case in $(./instructions); do
    valgrind --tool=callgrind --callgrind-out-file="$work/out" --collect-atstart=no \
        --toggle-collect="*::case_$case*" ./instructions "$case" 2>"$work/log" ||
        { cat "$work/log"; exit 1; }
    count=$(sed -n 's/^==[0-9]*== Collected : //p' "$work/log")
    # A name that callgrind does not find would count nothing.
    [[ "$count" -gt 1000 ]] || { echo "$case: nothing was counted"; exit 1; }
    printf '%s %s\n' "$case" "$count" >>"$counts"
done

if [[ ${1-} == --update ]]; then
    { echo "# $compiler"; cat "$counts"; } >"$BASELINE"
    cat "$BASELINE"
    exit
fi
failed=0
while read -r case count; do
    before=$(sed -n "s/^$case //p" "$BASELINE")
    [[ -n "$before" ]] || { echo "$case: not in $BASELINE"; failed=1; continue; }
    awk -v name="$case" -v count="$count" -v before="$before" \
        'BEGIN { printf "%-12s %12d instructions, %+.2f %%\n", name, count, (count - before) * 100 / before }'
    if ((count * 100 > before * LIMIT)); then
        echo "$case: more than 5 % over the $before of $BASELINE"
        failed=1
    fi
done <"$counts"
exit "$failed"
