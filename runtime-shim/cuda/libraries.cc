#include "runtime-shim/cuda/libraries.h"

#include <dlfcn.h>

#include <string>

#include "libshard/base/text/text.h"

namespace moepack::runtime::cuda {
namespace {

#define MOEPACK_AS_TEXT(name) #name
#define MOEPACK_TEXT_OF(name) MOEPACK_AS_TEXT(name)  // of what a macro stands for

// The versions that the headers are for.
constexpr const char* kBlas = "libcublas.so." MOEPACK_TEXT_OF(CUBLAS_VER_MAJOR);
constexpr const char* kSolver = "libcusolver.so." MOEPACK_TEXT_OF(CUSOLVER_VER_MAJOR);

// Where the system looks, or where the toolkit was that this program was built with. The libraries
// that it needs may be what is missing, so both reasons are given.
Result<void*> OpenLibrary(const char* name) {
  void* library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr) return library;
  const std::string why = ::dlerror();
  library = ::dlopen(Cat(MOEPACK_CUDA_LIBRARIES, "/", name).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr) return library;
  return Error{Code::kUnavailable, Cat("cuda: ", why, "; ", ::dlerror()), kInstallLibraries};
}

template <class Function>
Status Find(const char* library_name, void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function != nullptr) return Ok();
  return Error{Code::kUnavailable,
               Cat("cuda: ", library_name, ": function ", name, ": expected, found none"),
               kInstallLibraries};
}

}  // namespace

Result<Libraries> OpenLibraries() {
  Libraries found;
  SHARD_TRY(void* const blas, OpenLibrary(kBlas));
  SHARD_TRY(void* const solver, OpenLibrary(kSolver));
#define MOEPACK_FIND_BLAS(member, name) \
  SHARD_CHECK(Find(kBlas, blas, MOEPACK_TEXT_OF(name), found.member));
#define MOEPACK_FIND_SOLVER(member, name) \
  SHARD_CHECK(Find(kSolver, solver, MOEPACK_TEXT_OF(name), found.member));
  MOEPACK_CUBLAS(MOEPACK_FIND_BLAS)
  MOEPACK_CUSOLVER(MOEPACK_FIND_SOLVER)
  return found;
}

}  // namespace moepack::runtime::cuda
