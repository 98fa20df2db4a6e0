# SPDX-License-Identifier: Apache-2.0
#
# libcairn.so and what `cmake --install` lays out under a prefix, which may be moved afterwards:
#
#   bin/cairn  include/cairn/*.h  lib/libcairn.so.0  lib/cmake/Cairn/  share/doc/cairn/
#   lib/cairn/   every library that Cairn needs beyond libc, libstdc++ and libgcc (Arrow and others)
#
# Programs and libraries find lib/cairn by their own place ($ORIGIN), so nothing need be configured.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(CMAKE_INSTALL_LIBDIR lib)

set(cairn_parts "")
foreach(part base env state async format backend checkpoint stream operators connectors sql engine
             store capi cli)
  get_target_property(kind cairn_${part} TYPE)
  if(kind STREQUAL "STATIC_LIBRARY")
    list(APPEND cairn_parts cairn_${part})
  endif()
endforeach()
list(JOIN cairn_parts "," cairn_part_list)

add_library(cairn_library SHARED ${CMAKE_SOURCE_DIR}/src/capi/library.cc)
# These need all the others.
target_link_libraries(cairn_library PRIVATE cairn_capi cairn_cli)
set_property(TARGET cairn_library PROPERTY LINK_LIBRARY_OVERRIDE "WHOLE_ARCHIVE,${cairn_part_list}")
# Users of the library see its public headers and link nothing else.
target_include_directories(cairn_library INTERFACE $<INSTALL_INTERFACE:include>)
target_compile_features(cairn_library INTERFACE cxx_std_20)
set_target_properties(cairn_library PROPERTIES
  OUTPUT_NAME cairn EXPORT_NAME cairn VERSION ${PROJECT_VERSION} SOVERSION 0
  INSTALL_RPATH "$ORIGIN/cairn")
set_target_properties(cairn PROPERTIES INSTALL_RPATH "$ORIGIN/../lib/cairn")
foreach(target cairn_library cairn)
  # Unlike RUNPATH, RPATH holds for the libraries of libraries too.
  target_link_options(${target} PRIVATE -Wl,--disable-new-dtags)
endforeach()

install(TARGETS cairn RUNTIME DESTINATION bin)
install(TARGETS cairn_library EXPORT CairnTargets LIBRARY DESTINATION lib)
install(DIRECTORY include/cairn DESTINATION include FILES_MATCHING PATTERN "*.h")
install(FILES README.md LICENSE NOTICE DESTINATION share/doc/cairn)
install(EXPORT CairnTargets NAMESPACE Cairn:: DESTINATION lib/cmake/Cairn)
file(WRITE ${CMAKE_BINARY_DIR}/CairnConfig.cmake
     "include(\"\${CMAKE_CURRENT_LIST_DIR}/CairnTargets.cmake\")\n")
write_basic_package_version_file(${CMAKE_BINARY_DIR}/CairnConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/CairnConfig.cmake ${CMAKE_BINARY_DIR}/CairnConfigVersion.cmake
        DESTINATION lib/cmake/Cairn)

# Copy what the two need. Found at install time, as the loader would find them.
install(CODE "set(cairn_files \"$<TARGET_FILE:cairn_library>\")
set(cairn_command \"$<TARGET_FILE:cairn>\")
set(cairn_arrow_dir \"${CAIRN_PYARROW}\")")
install(CODE [[
  file(GET_RUNTIME_DEPENDENCIES
    LIBRARIES ${cairn_files} EXECUTABLES ${cairn_command}
    RESOLVED_DEPENDENCIES_VAR found UNRESOLVED_DEPENDENCIES_VAR missing
    DIRECTORIES ${cairn_arrow_dir}
    PRE_EXCLUDE_REGEXES "^ld-linux" "^libc\\.so" "^libm\\.so" "^libstdc\\+\\+" "^libgcc_s"
                        "^libpthread\\.so" "^libdl\\.so" "^librt\\.so" "^libresolv\\.so")
  if(missing)
    message(FATAL_ERROR "libraries not found: ${missing}")
  endif()
  foreach(library ${found})
    file(INSTALL DESTINATION "${CMAKE_INSTALL_PREFIX}/lib/cairn" TYPE SHARED_LIBRARY
         FOLLOW_SYMLINK_CHAIN FILES "${library}")
  endforeach()]])
