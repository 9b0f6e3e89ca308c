#!/usr/bin/env bash
# Builds every fuzz target for OSS-Fuzz, whose image sets SRC, OUT and the toolchain. Elsewhere:
#
#     SRC=FOLDER OUT=FOLDER RUSTUP_TOOLCHAIN=nightly fuzz/oss-fuzz/build.sh
#
# The folder of SRC has the repository as `informer`. It needs cargo-fuzz and zip.
set -euo pipefail
# The wrapper of cargo in the image, which makes the build for a coverage report, looks for `fuzz` here.
cd "$SRC/informer"

cargo fuzz build
target=$(rustc -vV | sed -n 's/^host: //p')
for file in fuzz/fuzz_targets/*.rs; do
    name=$(basename "$file" .rs)
    cp "${CARGO_TARGET_DIR:-fuzz/target}/$target/release/$name" "$OUT/"
    # zip adds to an archive that is there, and an input that is gone would stay.
    rm -f "$OUT/${name}_seed_corpus.zip"
    zip -q -j -r "$OUT/${name}_seed_corpus.zip" "fuzz/corpus/$name"
done
