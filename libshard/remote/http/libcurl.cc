#include "libshard/remote/http/libcurl.h"

#include <dlfcn.h>

#include "libshard/base/text/text.h"

namespace moepack::remote {
namespace {

constexpr const char* kLibrary = "libcurl.so.4";

// The result of opening: the functions, or why there are none.
struct Opened {
  LibCurl functions;
  Status status = Ok();
};

template <class Function>
void Look(void* library, const char* name, Function& function, Status& status) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr && status)
    status = Error{Code::kUnavailable, Cat(kLibrary, ": expected the function ", name)};
}

Opened Open() {
  Opened opened;
  void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    opened.status = Error{Code::kUnavailable, Cat(kLibrary, ": ", dlerror()),
                          "remote sources need libcurl: install libcurl4"};
    return opened;
  }
  LibCurl& curl = opened.functions;
  Look(library, "curl_global_init", curl.global_init, opened.status);
  Look(library, "curl_easy_init", curl.easy_init, opened.status);
  Look(library, "curl_easy_reset", curl.easy_reset, opened.status);
  Look(library, "curl_easy_setopt", curl.easy_setopt, opened.status);
  Look(library, "curl_easy_perform", curl.easy_perform, opened.status);
  Look(library, "curl_easy_getinfo", curl.easy_getinfo, opened.status);
  Look(library, "curl_easy_cleanup", curl.easy_cleanup, opened.status);
  Look(library, "curl_easy_strerror", curl.easy_strerror, opened.status);
  Look(library, "curl_slist_append", curl.slist_append, opened.status);
  Look(library, "curl_slist_free_all", curl.slist_free_all, opened.status);
  Look(library, "curl_getdate", curl.getdate, opened.status);
  Look(library, "curl_url", curl.url, opened.status);
  Look(library, "curl_url_cleanup", curl.url_cleanup, opened.status);
  Look(library, "curl_url_get", curl.url_get, opened.status);
  Look(library, "curl_url_set", curl.url_set, opened.status);
  Look(library, "curl_free", curl.free, opened.status);
  if (opened.status && curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
    opened.status = Error{Code::kUnavailable, Cat(kLibrary, ": it could not be started")};
  return opened;
}

const Opened& Library() {
  static const Opened opened = Open();
  return opened;
}

}  // namespace

Status OpenLibCurl() { return Library().status; }

const LibCurl& Curl() { return Library().functions; }

}  // namespace moepack::remote
