# Shared by the tests of refits and calibrations on several machines, which read it with `.`.
# Requires: moepack (the program), work (a folder for the test).

# Puts a program `moepack` into bin/ that, as task 1, is killed after each layer that it ends and
# started again, as a scheduler would do, until nothing is left to do. A line in `kills` for each.
kill_once_per_layer() {
  mkdir -p "$work/bin"
  cat >"$work/bin/moepack" <<WRAPPER
#!/bin/bash
if [ "\${OMPI_COMM_WORLD_RANK-}\${SLURM_ARRAY_TASK_ID-}" != 1 ]; then exec "$moepack" "\$@"; fi
case \$1 in
  refit) record=$work/out.tasks/00001-of-00002.refit/refit.json ;;
  quantize) record=$work/out.gguf.calibrated.tasks/00001-of-00002/calibration.json ;;
  *) exec "$moepack" "\$@" ;;
esac
layers() { grep -c '"layer":' "\$record" 2>/dev/null || true; }
seen=0
while :; do
  "$moepack" "\$@" &
  process=\$!
  while kill -0 \$process 2>/dev/null; do
    now=\$(layers)
    if [ "\${now:-0}" -gt \$seen ]; then
      seen=\$now
      kill -9 \$process 2>/dev/null && echo "\$1: after layer \$seen" >>"$work/kills"
      break
    fi
    sleep 0.02
  done
  wait \$process
  status=\$?
  [ \$status = 137 ] || exit \$status
done
WRAPPER
  chmod +x "$work/bin/moepack"
}

# $1: the command, which has to have been killed after each of the three layers of tiny-moe.
expect_kills() {
  count=$(grep -c "^$1: " "$work/kills" || true)
  [ "$count" -ge 3 ] || { echo "expected $1 to be killed 3 times, found $count"; exit 1; }
}
