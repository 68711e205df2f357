# sluice_embed(TARGET SPACE NAME FILE): the text of FILE becomes part of the library TARGET as
# `const std::string_view sluice::SPACE::NAME`.
function(sluice_embed target space name file)
  file(READ ${CMAKE_SOURCE_DIR}/${file} SLUICE_TEXT)
  set(SLUICE_FILE ${file})
  set(SLUICE_SPACE ${space})
  set(SLUICE_NAME ${name})
  set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  set(source ${CMAKE_BINARY_DIR}/generated/${space}_${name}.cc)
  configure_file(${CMAKE_SOURCE_DIR}/cmake/embedded.cc.in ${source} @ONLY)
  target_sources(${target} PRIVATE ${source})
endfunction()
