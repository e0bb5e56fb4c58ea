// Prints the name of every built-in family, one per line, for documented.sh.
#include <cstdio>

#include "libshard/model/family.h"

int main() {
  for (const moepack::Family& family : moepack::AllFamilies()) std::puts(family.name.c_str());
}
