// Prints the name of every built-in family, one per line, for documented.sh.
#include <cstdio>

#include "libshard/model/family.h"

int main() {
  for (const shard::Family& family : shard::AllFamilies()) std::puts(family.name.c_str());
}
