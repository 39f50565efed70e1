package e2e

import (
	"bytes"
	"fmt"
	"html"
	"image"
	"image/png"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

const (
	browsedJob = `import os, sys, time, ray
ray.init()
@ray.remote(num_cpus=0)
class Browsed:
    def says(self): return 6 * 7
browsed = Browsed.options(name="by-its-name").remote()
print("the actor says", ray.get(browsed.says.remote()), flush=True)
while not os.path.exists(sys.argv[1]): time.sleep(0.1)
`
	browsedApplication = `from ray import serve
@serve.deployment(ray_actor_options={"num_cpus": 0})
class Greeter:
    def __call__(self, request): return "hello"
app = Greeter.bind()
`
)

// browsedPages are the pages of Ray's dashboard, each with what leads there from the one before and what it shows of the cluster.
var browsedPages = []struct {
	name, link string
	wanted     []string
}{
	{"jobs", `nav a[href="#/jobs"]`, []string{"Fetched jobs", "Job List", "browsed", "python job.py", "RUNNING"}},
	{"job", `//tr[td="browsed"]//a[starts-with(@href, "#/jobs/")]`, []string{"Entrypoint", "python job.py", "Ray Core Overview", "the actor says 42", "Task Table"}},
	{"nodes", `nav a[href="#/cluster"]`, []string{"Node summary fetched", "Node List", "TOTAL\nx 2", "ALIVE\nx 2", "(Head)"}},
	{"cluster", `a[href="#/cluster/info"]`, []string{"Cluster Info", "2.60.0"}},
	{"actors", `nav a[href="#/actors"]`, []string{"Browsed", "by-its-name", "ALIVE"}},
	{"actor", `//tr[td="by-its-name"]//a[starts-with(@href, "#/actors/")]`, []string{"Class Name", "by-its-name", "STDERR"}},
	{"node", `a[href^="#/cluster/nodes/"]`, []string{"Node details fetched", "Node Detail", "Hostname", "RAYLET", "Logs"}},
	{"logs", `nav a[href="#/logs"]`, []string{"Select a node to view logs", "Node ID: "}},
	{"files", `a[href^="#/logs?nodeId="]`, []string{"raylet.out"}},
	{"file", `//a[.="raylet.out"]`, []string{"(raylet)"}},
	{"serve", `nav a[href="#/serve"]`, []string{"Controller status", "HEALTHY", "Applications / Deployments", "greeting", "Greeter", "RUNNING", "Controller starting"}},
	{"application", `a[href="#/serve/applications/greeting"]`, []string{"Import path", "app:app", "Greeter", "HEALTHY"}},
	{"metrics", `nav a[href="#/metrics"]`, []string{"Set up Prometheus and Grafana"}},
}

// TestBrowserDashboard walks through Ray's dashboard in a real Chromium that was led there by a page of another site, as JupyterLab's: each page is whole.
func TestBrowserDashboard(t *testing.T) {
	u := sharedCluster(t)
	browser := startChromium(t)
	finish := filepath.Join(u.dir, "finish")
	u.write("job.py", browsedJob)
	u.write("app/app.py", browsedApplication)
	u.write("serve.yaml", "applications:\n- {name: greeting, import_path: 'app:app', route_prefix: /, runtime_env: {working_dir: app}}\n")
	u.want(0, "serve", "apply", "-f", "serve.yaml", "shared")
	defer u.want(0, "serve", "delete", "shared")
	defer u.write("finish", "") // also where it fails: others use the cluster
	job := u.start(false, "submit", "shared", "--submission-id", "browsed", "--", "python", "job.py", finish)
	job.until("the actor says 42", 1)
	d := openDashboard(u)

	b := newTab(t, browser)
	d.follow(b, "localhost", d.entry(), "cross-site")
	d.whole(b, "overview", "Cluster utilization", "Recent jobs", "browsed", "Serve Deployments", "Greeter", "Node count", "Events")
	for _, page := range browsedPages {
		b.do(chromedp.Click(chromedp.Search(page.link)))
		d.whole(b, page.name, page.wanted...)
	}
	d.socket(b, "/api/jobs/browsed/logs/tail")

	origin := d.origin(b)
	entry := d.entry()
	d.follow(b, "localhost", origin+"/", "cross-site") // a bookmark there
	c := newTab(t, browser)
	d.follow(c, "localhost", entry+"/", "cross-site")
	d.follow(c, "localhost", entry, "cross-site") // once more
	d.follow(newTab(t, browser), "127.0.0.1", d.entry(), "same-site")

	u.write("finish", "")
	if code := job.code(); code != 0 {
		t.Errorf("the job: exit code %d, %s", code, job)
	}
	d.screen.cmd.Process.Signal(syscall.SIGINT)
	if code := d.screen.code(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// dashboard is a `rayctl dashboard`, and a page of another site with a link to it.
type dashboard struct {
	u      *user
	screen *screen
	direct string // the dashboard itself
	token  string
	lab    *httptest.Server
	used   int // entries
}

func openDashboard(u *user) *dashboard {
	u.t.Helper()
	vars := decode[map[string]string](u.t, u.want(0, "env", "shared", "-o", "json").out)
	token, err := os.ReadFile(vars["RAY_AUTH_TOKEN_PATH"])
	if err != nil {
		u.t.Fatal(err)
	}
	d := &dashboard{u: u, screen: u.start(false, "dashboard", "shared"), direct: vars["RAY_API_SERVER_ADDRESS"], token: strings.TrimSpace(string(token))}
	d.lab = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `<!doctype html><link rel="icon" href="data:,"><a href="%s">the dashboard</a>`, html.EscapeString(r.FormValue("to")))
	}))
	u.t.Cleanup(d.lab.Close)
	return d
}

var entryURL = regexp.MustCompile(`http://127\.0\.0\.1:\d+/rayctl/\w+`)

// entry is the entry that was printed last.
func (d *dashboard) entry() string {
	d.u.t.Helper()
	d.used++
	d.screen.until("/rayctl/", d.used)
	all := entryURL.FindAllString(d.screen.String(), -1)
	return all[len(all)-1]
}

// follow follows a link to an address from a page at another port of a name of this machine.
func (d *dashboard) follow(b *tab, name, address, site string) {
	d.u.t.Helper()
	_, port, _ := strings.Cut(strings.TrimPrefix(d.lab.URL, "http://"), ":")
	b.do(chromedp.Navigate("http://"+name+":"+port+"/lab?to="+url.QueryEscape(address)), chromedp.Click(chromedp.CSS("a")))
	b.untilWhole("Cluster utilization")
	d.unrefused(b, "the link of "+name)
	for end := time.Now().Add(limit); !slices.Contains(b.sites(address), site); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			d.u.t.Fatalf("the link to %s was followed as %q", address, b.sites(address))
		}
	}
}

// whole waits until a page is whole, and makes a screenshot.
func (d *dashboard) whole(b *tab, name string, wanted ...string) {
	t := d.u.t
	t.Helper()
	b.untilWhole(wanted...)
	d.unrefused(b, name)
	picture, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		t.Fatal(err)
	}
	dir := os.Getenv("RAYCTL_TEST_SCREENSHOTS") // for people to look at
	if dir == "" {
		dir = t.TempDir()
	}
	path := filepath.Join(dir, name+".png")
	if err := os.WriteFile(path, picture, 0o644); err != nil {
		t.Fatal(err)
	}
	if colours, covered, err := drawn(picture); err != nil || colours < 50 || covered < 0.01 {
		t.Errorf("%s is blank: %d colours, %f covered, %v", path, colours, covered, err)
	}
}

// unrefused expects nothing on the console, and no error from the proxy: only what Ray itself answers to the same request.
func (d *dashboard) unrefused(b *tab, name string) {
	t := d.u.t
	t.Helper()
	refused, said := b.taken()
	for _, text := range said {
		t.Errorf("%s: %s", name, text)
	}
	origin := d.origin(b)
	for _, r := range refused {
		path, ours := strings.CutPrefix(r.URL, origin)
		if !ours || d.ask(r.Method, path) != r.Status {
			t.Errorf("%s: %s %s: %d, which is not Ray's own answer", name, r.Method, r.URL, r.Status)
			continue
		}
		t.Logf("%s: Ray's own answer to %s %s is %d", name, r.Method, path, r.Status)
	}
}

// origin is where the tab sees the dashboard: at the proxy's own name.
func (d *dashboard) origin(b *tab) string {
	d.u.t.Helper()
	origin, err := ask[string](b, "location.origin")
	if err != nil || !strings.Contains(origin, ".localhost:") {
		d.u.t.Fatalf("the tab is at %s, %v", origin, err)
	}
	return origin
}

// ask asks Ray itself.
func (d *dashboard) ask(method, path string) (status int64) {
	d.u.t.Helper()
	r, err := http.NewRequest(method, d.direct+path, nil)
	if err != nil {
		d.u.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+d.token)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		d.u.t.Fatal(err)
	}
	resp.Body.Close()
	return int64(resp.StatusCode)
}

// drawn counts the colours of a screenshot, and which part is not of the commonest one, below the menu.
func drawn(data []byte) (colours int, covered float64, err error) {
	picture, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		return 0, 0, err
	}
	const menu = 60
	area := image.Rect(picture.Bounds().Min.X, menu, picture.Bounds().Max.X, picture.Bounds().Max.Y)
	counts, most := map[[4]uint32]int{}, 0
	for y := area.Min.Y; y < area.Max.Y; y++ {
		for x := area.Min.X; x < area.Max.X; x++ {
			r, g, b, a := picture.At(x, y).RGBA()
			counts[[4]uint32{r, g, b, a}]++
			most = max(most, counts[[4]uint32{r, g, b, a}])
		}
	}
	return len(counts), 1 - float64(most)/float64(area.Dx()*area.Dy()), nil
}

// socket opens a websocket, which Ray's API has and its pages do not use. Ray 2.60 sends nothing through one that may be compressed, as a browser's.
func (d *dashboard) socket(b *tab, path string) {
	d.u.t.Helper()
	if opened, err := ask[bool](b, fmt.Sprintf(`new Promise(resolve => {
		const socket = new WebSocket("ws://" + location.host + %q)
		socket.onopen = () => { socket.close(); resolve(true) }
		socket.onerror = () => resolve(false)
	})`, path), chromedp.EvalAwaitPromise); err != nil || !opened {
		d.u.t.Errorf("the websocket does not open: %v", err)
	}
}
