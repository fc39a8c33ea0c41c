# Sourced: `fetch PACKAGE...` unpacks Debian packages into the current directory. It needs no root: package
# lists and packages go to that directory too.
fetch() {
  mkdir -p lists/partial cache/archives/partial
  _apt update && _apt download "$@" || return 1
  for package in ./*.deb; do
    dpkg-deb -x "$package" . || return 1
  done
}

_apt() {
  apt-get -qq -o "Dir::State::Lists=$PWD/lists" -o "Dir::Cache=$PWD/cache" \
    -o APT::Sandbox::User=root "$@" > /dev/null 2>&1
}
