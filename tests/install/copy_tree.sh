#!/bin/sh
# Copies the sources to an existing directory, without builds. Works without git, too.
# usage: copy_tree.sh ROOT DIR
set -eu
tar -C "$1" --exclude=./.git --exclude='./build*' --exclude=node_modules --exclude='*.partial' \
  -cf - . | tar -C "$2" -xf -
