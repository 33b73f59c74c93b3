/** Light or dark. */
import { useEffect, useState, useSyncExternalStore } from "react";

const systemTheme = matchMedia("(prefers-color-scheme: dark)");

/** As the system has it, also when that changes at dusk, until one is chosen here. */
export function useTheme(): [isDark: boolean, change: () => void] {
  const [chosen, setChosen] = useState(() => localStorage.getItem("holdfast-theme"));
  const isSystemDark = useSyncExternalStore(
    (tell) => {
      systemTheme.addEventListener("change", tell);
      return () => systemTheme.removeEventListener("change", tell);
    },
    () => systemTheme.matches,
  );
  const isDark = chosen === null ? isSystemDark : chosen === "dark";
  useEffect(() => {
    document.documentElement.classList.toggle("dark", isDark);
  }, [isDark]);
  return [
    isDark,
    () => {
      const next = isDark ? "light" : "dark";
      localStorage.setItem("holdfast-theme", next);
      setChosen(next);
    },
  ];
}
