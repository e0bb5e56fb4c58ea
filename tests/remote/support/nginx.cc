#include "tests/remote/support/nginx.h"

#include <fstream>

#include "libshard/base/text/text.h"
#include "tests/remote/support/real_server.h"

namespace moepack::remote {

std::vector<std::string> NginxCommand(const std::filesystem::path& directory, uint16_t port,
                                      const std::string& listen, const std::string& server,
                                      const std::string& http) {
  const std::string dir = directory.string(), file = dir + "/nginx.conf";
  std::string paths;
  for (const char* kind : {"client_body", "proxy", "fastcgi", "uwsgi", "scgi"})
    paths += Cat(kind, "_temp_path ", dir, "/", kind, ";\n");
  std::filesystem::create_directories(directory);
  std::ofstream(file) << Cat("daemon off;\nmaster_process off;\npid ", dir, "/pid;\nerror_log ",
                             dir, "/error.log;\nevents {}\nhttp {\n", http, paths,
                             "server {\nlisten 127.0.0.1:", port, " ", listen, ";\n", server,
                             "\n}\n}\n");
  return {FindProgram("nginx"), "-p", dir, "-e", dir + "/error.log", "-c", file};
}

}  // namespace moepack::remote
