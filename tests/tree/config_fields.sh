#!/bin/sh
# A name of a config field that libshard/model/{config,layer}_fields.h list is asked for under no
# other list, and a list of several names is only there: a reader with a list of its own would
# sooner or later read another number than the others.
# usage: config_fields.sh ROOT
set -eu
cd "$1"
tables="libshard/model/config_fields.h libshard/model/layer_fields.h"
names=$(sed 's,//.*,,' $tables | grep -v '^#' | grep -o '"[a-z0-9_]*"' | tr -d '"')
repeated=$(echo "$names" | sort | uniq -d)
status=0
if [ -n "$repeated" ]; then
  echo "$tables: expected every name once, found twice: $repeated"
  status=1
fi
# Braces with one of the names in them, as in Find({"head_dim"}); defaults are JSON, with a colon
# behind the name.
any=$(echo $names | tr ' ' '|')
readers='Find[A-Za-z0-9]*|Has|U32|F32|Missing|Size|Needed|Uniform|Largest|Step'
folders="libshard/model libshard/check libshard/convert libshard/sizing manifest/node"
found=$(find $folders -name '*.cc' -o -name '*.h' | grep -vE '_fields\.h$' | sort | xargs awk \
  -v any="$any" -v readers="$readers" '
  { sub(/\/\/.*/, "") }
  $0 ~ "[{](\"[a-zA-Z0-9_]+\", *)*\"(" any ")\" *[,}]" {
    print FILENAME ":" FNR ": expected a list of config_fields.h or layer_fields.h, found " $0
    next
  }
  $0 ~ "(" readers ")\\(([a-z_]+, )?[{]\"[a-z0-9_]+\", *\"" ||
  $0 ~ "ConfigKeys [a-zA-Z]+ = [{]\"[a-z0-9_]+\", *\"" {
    print FILENAME ":" FNR ": expected one name, or a list of config_fields.h, found " $0
  }')
[ -z "$found" ] || { echo "$found"; status=1; }
exit $status
