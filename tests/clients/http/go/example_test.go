// examples/go, as it is, against the real sluice: what its clients see.
package http

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

var client = &http.Client{Timeout: patience}

// built is the example's program.
var built string

func TestMain(m *testing.M) {
	folder, err := os.MkdirTemp("", "sluice-go-")
	if err != nil {
		panic(err)
	}
	built = filepath.Join(folder, "limited")
	build := exec.Command("go", "build", "-o", built, ".")
	build.Dir = example
	build.Stdout, build.Stderr = os.Stdout, os.Stderr
	if err := build.Run(); err != nil {
		panic(err)
	}
	status := m.Run()
	_ = os.RemoveAll(folder)
	os.Exit(status)
}

// start runs sluice, and the example in front of it, which waits for sluice for so many seconds.
func start(t *testing.T, onFailure, seconds string) (sluice, service *program) {
	t.Helper()
	sluice = serve(t, "0")
	return sluice, startInFrontOf(t, "http://127.0.0.1:"+sluice.port, onFailure, seconds)
}

func startInFrontOf(t *testing.T, url, onFailure, seconds string) *program {
	t.Helper()
	command := exec.Command(built)
	command.Env = []string{"PORT=0", "SLUICE_URL=" + url, "ON_FAILURE=" + onFailure, "SLUICE_SECONDS=" + seconds}
	return run(t, command, `listening on http://127\.0\.0\.1:(\d+)$`)
}

type answer struct {
	status int
	header http.Header
	body   string
}

func ask(t *testing.T, service *program, target string) answer {
	t.Helper()
	response, err := client.Get("http://127.0.0.1:" + service.port + target)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, string(body)}
}

func expect(t *testing.T, got answer, status int, body string) {
	t.Helper()
	if got.status != status || (body != "" && got.body != body) {
		t.Fatalf("%+v in place of %d %q", got, status, body)
	}
}

func expectField(t *testing.T, got answer, name, pattern string) {
	t.Helper()
	if !regexp.MustCompile("^(?:" + pattern + ")$").MatchString(got.header.Get(name)) {
		t.Fatalf("%s is %q", name, got.header.Get(name))
	}
}

const policy = `"export";q=5;w=600`

func TestUpToTheLimit(t *testing.T) {
	_, service := start(t, "open", "60")
	for left := 4; left >= 0; left-- {
		got := ask(t, service, "/export?x=1")
		expect(t, got, 200, "all there is\n")
		expectField(t, got, "RateLimit-Policy", policy)
		expectField(t, got, "RateLimit", `"export";r=`+strconv.Itoa(left)+`;t=\d+`)
		expectField(t, got, "Retry-After", "")
	}
	for i := 0; i < 2; i++ {
		got := ask(t, service, "/export?x=1")
		expect(t, got, 429, "")
		expectField(t, got, "RateLimit-Policy", policy)
		expectField(t, got, "RateLimit", `"export";r=0;t=\d+`)
		expectField(t, got, "Content-Type", `application/problem\+json`)
		if seconds, err := strconv.Atoi(got.header.Get("Retry-After")); err != nil || seconds <= 480 || seconds > 600 {
			t.Fatalf("Retry-After is %q", got.header.Get("Retry-After"))
		}
		var problem struct {
			Status   int
			Violated []string `json:"violated-policies"`
		}
		if err := json.Unmarshal([]byte(got.body), &problem); err != nil || problem.Status != 429 || len(problem.Violated) != 1 {
			t.Fatalf("%v: %s", err, got.body)
		}
	}
	other := ask(t, service, "/")
	expect(t, other, 200, "hello\n")
	expectField(t, other, "RateLimit", "")
}

func TestWithoutSluiceRequestsPass(t *testing.T) {
	sluice, service := start(t, "open", "60")
	_ = sluice.stop(t)
	for i := 0; i < 7; i++ {
		got := ask(t, service, "/export")
		expect(t, got, 200, "all there is\n")
		expectField(t, got, "RateLimit", "")
	}
}

// Whatever happens without an answer.
func TestAnAnswerThatIsNoDecisionLetsNothingPass(t *testing.T) {
	for status, shown := range map[int]int{302: 500, 400: 500, 401: 500, 404: 500, 421: 500, 503: 503} {
		status := status
		answering := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet { // a client that follows a redirect gets a 200
				return
			}
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(status)
		}))
		service := startInFrontOf(t, answering.URL, "open", "60")
		expect(t, ask(t, service, "/export"), shown, "the limits cannot be checked\n")
		_ = service.stop(t)
		answering.Close()
	}
	// An address that is none is a mistake as well.
	expect(t, ask(t, startInFrontOf(t, "http://:x", "open", "60"), "/export"), 500, "")
}

func TestWithoutSluiceRequestsAreRefusedWhereThatIsWanted(t *testing.T) {
	sluice, service := start(t, "closed", "60")
	expect(t, ask(t, service, "/export"), 200, "")
	_ = sluice.stop(t)
	got := ask(t, service, "/export")
	expect(t, got, 503, "")
	expectField(t, got, "Retry-After", "1")
	serve(t, sluice.port)
	for end := time.Now().Add(patience); ask(t, service, "/export").status != 200; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not ask sluice again")
		}
	}
}

// A client must not be able to be undecided.
func TestOddPathsAreDecided(t *testing.T) {
	_, service := start(t, "closed", "60")
	for _, target := range []string{"/%ff%00%ed%a0%80", "/" + strings.Repeat("x", 5000), "/%22%5c", "/?" + strings.Repeat("y", 5000)} {
		expect(t, ask(t, service, target), 200, "hello\n")
	}
}

// askAsWritten returns all that is answered to a target that is sent as it is.
func askAsWritten(t *testing.T, service *program, target string) string {
	t.Helper()
	connection, err := net.DialTimeout("tcp", "127.0.0.1:"+service.port, patience)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	_ = connection.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(connection, "GET "+target+" HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(connection)
	return string(text)
}

func TestAllSpellingsOfAPathThatTheRouterTakesForOneShareItsLimit(t *testing.T) {
	_, service := start(t, "closed", "60")
	for i := 0; i < 5; i++ {
		expect(t, ask(t, service, "/export"), 200, "")
	}
	spellings, err := os.ReadFile(filepath.Join("..", "spellings.txt"))
	if err != nil {
		t.Fatal(err)
	}
	limited := map[string]bool{}
	for _, target := range strings.Split(strings.TrimSpace(string(spellings)), "\n") {
		got := askAsWritten(t, service, target)
		if strings.Contains(got, "all there is") {
			t.Errorf("%s passes the limit", target)
		}
		limited[target] = strings.HasPrefix(got, "HTTP/1.1 429 ")
	}
	for _, target := range []string{"/%65xport", "/exp%6Frt", "/export??", "http://h/export", "h:/export", "http:///export"} {
		if !limited[target] {
			t.Errorf("%s is not limited", target)
		}
	}
}

func TestASilentSluiceIsNotWaitedFor(t *testing.T) {
	for onFailure, status := range map[string]int{"open": 200, "closed": 503} {
		sluice, service := start(t, onFailure, "0.25")
		sluice.hold(t)
		expect(t, ask(t, service, "/export"), status, "")
	}
}
