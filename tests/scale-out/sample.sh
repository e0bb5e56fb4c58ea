# Shared by the tests of docs/examples/scale-out, which read it with `.`.
# Requires: root (of the tree), moepack (the program), work (a separate folder for the test).

skip() {
  echo "the recipe was not run: $1"
  exit 77
}

# An empty folder with the distribution of one run, and the environment that the recipes read.
prepare() {
  rm -rf "$work"
  mkdir -p "$work/bin"
  ln -s "$moepack" "$work/bin/moepack"
  PATH=$work/bin:$PATH
  SOURCE=$root/fixtures/tiny-moe
  GROUP_COUNT=3
  RECIPE=Q4_K_M
  OUT=$work/out
  export PATH SOURCE GROUP_COUNT RECIPE OUT
  cd "$work"
  moepack build "$SOURCE" --groups "$GROUP_COUNT" --quantize "$RECIPE" --no-task -o whole >/dev/null
}

# The joined distribution equals that of one run, to the byte; $1 tasks made it.
compare() {
  diff -r whole out
  count=$(ls -d out.tasks/*-of-* | wc -l)
  [ "$count" -eq "$1" ] || { echo "expected $1 tasks, found $count"; exit 1; }
  echo "$1 tasks gave the bytes of one run"
}
