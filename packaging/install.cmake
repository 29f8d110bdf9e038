# Run by `cmake --install`: what depends on the prefix that is installed to.
#
# Under /usr and /usr/local the configuration is /etc/berth/berth.yaml, elsewhere PREFIX/etc/berth/.
# One that is there already is never replaced. $DESTDIR stands before every path that is written and
# in none that is written down.
set(prefix "${CMAKE_INSTALL_PREFIX}")
if(prefix MATCHES "^/usr(/local)?/?$")
  set(etc /etc)
else()
  set(etc "${prefix}/etc")
endif()
set(root "$ENV{DESTDIR}")
set(here "${CMAKE_CURRENT_LIST_DIR}")

# write(TEMPLATE PATH): a copy with the paths of this installation.
function(write template path)
  file(READ "${here}/${template}" text)
  string(REPLACE "/usr/bin/berth" "${prefix}/bin/berth" text "${text}")
  string(REPLACE "/usr/share/doc/berth" "${prefix}/share/doc/berth" text "${text}")
  string(REPLACE "/etc/berth" "${etc}/berth" text "${text}")
  file(WRITE "${root}${path}" "${text}")
  message(STATUS "Installing: ${root}${path}")
endfunction()

write(systemd/berth.service "${prefix}/lib/systemd/system/berth.service")
write(systemd/berth.sysusers "${prefix}/lib/sysusers.d/berth.conf")
write(systemd/berth.tmpfiles "${prefix}/lib/tmpfiles.d/berth.conf")
write(logrotate/berth "${etc}/logrotate.d/berth")
if(EXISTS "${root}${etc}/berth/berth.yaml")
  message(STATUS "Kept: ${root}${etc}/berth/berth.yaml")
else()
  write(config/berth.yaml "${etc}/berth/berth.yaml")
endif()

# Completions come from the program itself.
foreach(shell bash zsh)
  execute_process(COMMAND "${root}${prefix}/bin/berth" completion ${shell} OUTPUT_VARIABLE text
    RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "berth completion ${shell} failed (${failed}); built for this machine?")
  endif()
  if(shell STREQUAL bash)
    set(path "${prefix}/share/bash-completion/completions/berth")
  else()
    set(path "${prefix}/share/zsh/site-functions/_berth")
  endif()
  file(WRITE "${root}${path}" "${text}")
  message(STATUS "Installing: ${root}${path}")
endforeach()
